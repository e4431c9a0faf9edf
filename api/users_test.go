package api

import "testing"

// What one user holds is theirs alone, of each model.
func TestSharesOfUsers(t *testing.T) {
	u := newUsers()
	model := cacheOf{"192.0.2.1", "m"}
	for range 2 {
		if _, err := u.take(model, 250, 500); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := u.take(model, 1, 500); err == nil {
		t.Error("a user exceeds the share")
	}
	for _, other := range []cacheOf{{"192.0.2.2", "m"}, {"192.0.2.1", "other"}} {
		give, err := u.take(other, 500, 500)
		if err != nil {
			t.Error(err)
		} else if give(); u.cache[other] != (cacheHeld{}) {
			t.Error("not given back")
		}
	}
}

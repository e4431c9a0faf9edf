package control

import (
	"fmt"
	"net/http"
	"testing"

	"whorl/api"
)

// One caller cannot take the places of all, and each place comes back.
func TestFollowers(t *testing.T) {
	f := &followers{of: map[string]int{}}
	var leaves []func()
	for i := range maxFollowers {
		leave, err := f.enter(fmt.Sprint("caller ", i/maxOwnFollowers))
		if err != nil {
			t.Fatal(i, err)
		}
		leaves = append(leaves, leave)
		if i == maxOwnFollowers-1 {
			if _, err := f.enter("caller 0"); err == nil {
				t.Error("one caller has more than its share")
			}
		}
	}
	_, err := f.enter("another")
	if d := api.Describe(err); err == nil || d.Status != http.StatusTooManyRequests || d.Retry == 0 {
		t.Errorf("one more than fit: %+v", d)
	}
	leaves[0]()
	if leave, err := f.enter("another"); err != nil {
		t.Error(err)
	} else {
		leave()
	}
	for _, leave := range leaves[1:] {
		leave()
	}
	if f.all != 0 || len(f.of) != 0 {
		t.Errorf("%d are there, %v", f.all, f.of)
	}
}

package responses

import (
	"fmt"
	"strings"
	"testing"

	"whorl/api/gen"
)

// What is stored has an end: the oldest go first, of a user with more than a share before those
// of others.
func TestStore(t *testing.T) {
	s := newStore()
	s.most = 40_000
	put := func(user string, i, size int) string {
		id := fmt.Sprint(user, i)
		s.put(&stored{response: gen.Response{Id: id, Model: strings.Repeat("m", size/overhead)}, user: user})
		return id
	}
	first := put("a", 0, 1000)
	for i := range 40 {
		put("b", i, 1000)
	}
	if s.get(first) == nil {
		t.Error("a user's only response went for another's")
	}
	if n := s.sizes["b"]; n > s.most/userShare || n < s.most/userShare/2 || s.get("b39") == nil || s.get("b0") != nil {
		t.Errorf("b holds %d bytes", n)
	}
	if id := put("a", 1, 12_000); s.get(id) != nil {
		t.Error("a response beyond a share is stored")
	}
	for i := range 20 {
		for u := range 9 {
			put(fmt.Sprint("u", u), i, 2000)
		}
	}
	if s.size > s.most || len(s.byID) != s.order.Len() || s.get(first) != nil {
		t.Errorf("%d bytes in %d responses", s.size, len(s.byID))
	}
	for id := range s.byID {
		if !s.drop(id) || s.drop(id) {
			t.Errorf("%s cannot be dropped once", id)
		}
	}
	if s.size != 0 || len(s.sizes) != 0 {
		t.Errorf("%d bytes of nothing, %v", s.size, s.sizes)
	}
}

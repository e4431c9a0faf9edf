package api

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a body took is given back when its request is over.
func TestBodiesGiveBack(t *testing.T) {
	b := newBodies(nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("a", 200<<10))).WithContext(ctx)
	body := b.of(r)
	if n, err := io.Copy(io.Discard, body); n != 200<<10 || err != nil || b.bytes.Used() != 256<<10 {
		t.Errorf("%d bytes, %v, %d taken", n, err, b.bytes.Used())
	}
	cancel()
	for b.bytes.Used() != 0 {
		<-time.After(time.Millisecond) // AfterFunc runs by itself
	}
	if _, err := body.Read(make([]byte, 1)); err == nil && body.(*paidBody).paid == 0 {
		t.Error("a body is read after its request")
	}
}

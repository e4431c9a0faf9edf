package server

import (
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Clients that read loads hear of them with their results, now and then; others never do.
func TestLoadsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		n.engine.takes = 10 * time.Millisecond
		in := input(1, 200)
		for _, reads := range []bool{true, false} {
			p := w.opened(n, "client", span, func(o *wire.Open) {
				if o.Session = (wire.SessionID{1}); reads {
					o.Session, o.Features = wire.SessionID{2}, wire.FeatureLoads
				}
			})
			var told []wire.Told
			for i := range 100 {
				p.rows(in, i, i+1, i)
				if h, _ := p.until(wire.TypeDone); h.done.Tells {
					told = append(told, h.done.Told)
				}
			}
			if !reads {
				if len(told) > 0 {
					t.Errorf("a client that does not read loads heard %v", told)
				}
			} else if last := told[len(told)-1]; len(told) != 2 || last.Sessions != 1 || !(last.Busy > 0) || last.Left != (cachePages-4)*64 {
				t.Errorf("within a second: %+v", told)
			}
			p.close()
		}
		n.idle(t)
	})
}

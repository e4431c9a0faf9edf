// Package balance chooses which blocks a server holds, when it joins and later, and in which
// class a node joins the others that serve a model. Pure: views, times and draws in, a
// decision out, with its reason in words. It does not load or announce anything (server).
//
// A server asks like this, from its start to its end:
//
//	census := balance.Count(view, unsteady)  // of the present view, its own record in it
//	d := mover.Next(config, census, self, now)
//	d.Do == Stay:   serve; announce the record without an intent
//	d.Do == Intend: announce mover.Intent() in Record.Next; a newcomer's Record.Span is d.Span
//	d.Do == Go:     announce mover.Intent(), which is final now; load d.Span; announce the
//	                record with the new span and no intent; mover.Loaded(now), also if loading failed
//	ask again after d.Again, or at once if census.Alarm() names blocks that it did not before
//
// Why that is enough, without a coordinator: an intent counts for everybody who has heard of
// it, so nobody else goes there; what is announced at one time is settled in one order that
// all see (Intent.Since, then the peer); and an intent is final only when every record has
// had the time to reach everybody (Config.Settle). ADR 0025 has the rest.
package balance

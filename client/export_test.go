package client

// KnownRows is how many rows from position 0 on a session could replay into a stage that
// begins at a block.
func KnownRows(s *Session, block int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Known(block).KnownFrom(0)
}

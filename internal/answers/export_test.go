package answers

// Taken is what is counted.
func (m *Memory) Taken() (count int, bytes int64, users int) {
	return m.all.count, m.all.bytes, len(m.users)
}

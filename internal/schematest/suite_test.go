package schematest

import "testing"

// The validator agrees with the suite where it knows a schema: it can judge others.
func TestJudgeAgreesWithTheSuite(t *testing.T) {
	known := 0
	for _, g := range Groups(t) {
		judge, err := NewJudge(g.Schema, false)
		if err != nil {
			continue
		}
		known++
		for _, c := range g.Tests {
			if err := judge.Check(string(c.Data)); (err == nil) != c.Valid {
				t.Errorf("%s: %s: %v, want valid: %v", g.String(), c.Description, err, c.Valid)
			}
		}
	}
	if known < 300 {
		t.Errorf("the validator knows %d schemas", known)
	}
}

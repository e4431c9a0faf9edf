package grammar

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"whorl/internal/schematest"
)

// The JSON Schema Test Suite: a schema is either refused by a keyword, or all that its grammar
// admits is valid, by the suite's own cases and, for random answers, by another validator.
func TestSuite(t *testing.T) {
	v := vocabulary()
	taken, refused, answers := 0, map[string]int{}, 0
	for _, c := range schematest.Groups(t) {
		name := c.String()
		g, err := Compile(Spec{Schema: c.Schema}, v)
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if r.Keyword != "schema" && !strings.Contains(string(c.Schema), `"`+r.Keyword+`"`) {
				t.Errorf("%s: refused for %q, which it does not have", name, r.Keyword)
			}
			if r.Keyword == "schema" { // no value is valid
				for _, x := range c.Tests {
					if x.Valid && strings.Contains(r.Problem, "no value") {
						t.Errorf("%s: %q is valid: %v", name, x.Description, err)
					}
				}
			}
			refused[r.Keyword]++
			continue
		}
		taken++
		for _, x := range c.Tests {
			value, err := readValue(x.Data)
			if err != nil {
				t.Fatal(err)
			}
			if !x.Valid && (admits(t, g, value.String()) || admits(t, g, string(x.Data))) {
				t.Errorf("%s: %s: %s is admitted and not valid", name, x.Description, value)
			}
		}
		answers += randomAnswers(t, name, g, c.Schema, false, 12)
	}
	t.Logf("%d schemas taken, refused by keyword: %v; %d random answers", taken, refused, answers)
	if taken < 120 || answers < 1000 {
		t.Errorf("%d schemas are taken, and %d answers were made", taken, answers)
	}
}

// randomAnswers makes answers to a schema and has another validator judge them.
func randomAnswers(t *testing.T, name string, g *Grammar, schema json.RawMessage, formats bool, n int) (made int) {
	t.Helper()
	judge, err := schematest.NewJudge(schema, formats)
	if err != nil {
		return 0 // one that the validator does not know
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range n {
		text, whole := randomAnswer(t, g, rng)
		if !whole {
			continue
		}
		made++
		if err := judge.Check(text); err != nil {
			t.Errorf("%s: %s: the answer %v", name, schema, err)
			return made
		}
	}
	return made
}

// randomAnswer draws among the tokens that may come, and comes to an end after a while.
func randomAnswer(t *testing.T, g *Grammar, rng *rand.Rand) (string, bool) {
	t.Helper()
	m, err := g.Start()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	const patience = 60
	for step := range 400 {
		if may, must := m.Ended(); must || may && (step > patience || rng.IntN(4) == 0) {
			return said.String(), true
		}
		mask, err := m.Mask()
		if err != nil {
			t.Fatal(err)
		}
		var may []int32
		for id := range pieces {
			if Admits(mask, int32(id)) {
				may = append(may, int32(id))
			}
		}
		id := may[rng.IntN(len(may))]
		if step > patience { // what closes comes first
			for _, b := range []byte(`"}]0n`) {
				if slices.Contains(may, int32(b)) {
					id = int32(b)
					break
				}
			}
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
		said.WriteString(pieces[id])
	}
	return "", false
}

// What people ask for: each schema is taken, and random answers are valid.
func TestSchemasOfPeople(t *testing.T) {
	v := vocabulary()
	for _, s := range peoplesSchemas {
		g, err := Compile(schema(s), v)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if n := randomAnswers(t, "people", g, json.RawMessage(s), true, 60); n < 40 {
			t.Errorf("%s: only %d answers came to an end", s, n)
		}
	}
}

var peoplesSchemas = []string{
	// Pydantic: nested models, optional fields, enums, dates.
	`{"$defs":{"Step":{"properties":{"explanation":{"title":"Explanation","type":"string"},"output":{"title":"Output","type":"string"}},"required":["explanation","output"],"title":"Step","type":"object","additionalProperties":false}},"properties":{"steps":{"items":{"$ref":"#/$defs/Step"},"title":"Steps","type":"array"},"final_answer":{"title":"Final Answer","type":"string"}},"required":["steps","final_answer"],"title":"MathReasoning","type":"object","additionalProperties":false}`,
	`{"properties":{"name":{"type":"string","maxLength":20},"age":{"anyOf":[{"type":"integer","minimum":0,"maximum":150},{"type":"null"}],"default":null},"born":{"format":"date","type":"string"},"at":{"format":"date-time","type":"string"},"id":{"format":"uuid","type":"string"},"mail":{"format":"email","type":"string"},"ip":{"format":"ipv4","type":"string"},"site":{"format":"uri","type":"string"}},"required":["name","born"],"type":"object"}`,
	`{"$defs":{"Color":{"enum":["red","green","blue"],"type":"string"}},"properties":{"color":{"allOf":[{"$ref":"#/$defs/Color"}],"default":"red"},"score":{"exclusiveMinimum":0,"maximum":1,"type":"number"},"tags":{"items":{"type":"string"},"maxItems":4,"type":"array"},"extra":{"additionalProperties":{"type":"integer"},"type":"object"}},"required":["color","score"],"type":"object"}`,
	`{"$defs":{"Cat":{"properties":{"kind":{"const":"cat","type":"string"},"lives":{"type":"integer","minimum":1,"maximum":9}},"required":["kind","lives"],"type":"object"},"Dog":{"properties":{"kind":{"const":"dog","type":"string"},"name":{"type":"string"}},"required":["kind","name"],"type":"object"}},"discriminator":{"mapping":{"cat":"#/$defs/Cat"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}]}`,
	// Zod, and OpenAI's own examples.
	`{"type":"object","properties":{"ui":{"type":"object","properties":{"type":{"type":"string","enum":["div","button"]},"label":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/properties/ui"}}},"required":["type","label","children"],"additionalProperties":false}},"required":["ui"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`,
	`{"type":"object","properties":{"location":{"type":"string","pattern":"^[A-Z][a-z]{1,8}(, [A-Z]{2})?$"},"days":{"type":"integer","enum":[1,3,7]},"unit":{"type":["string","null"],"enum":["c","f",null]}},"required":["location","days","unit"],"additionalProperties":false}`,
	`{"type":"object","properties":{"linked_list":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"value":{"type":"number"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"additionalProperties":false,"required":["next","value"]}},"required":["linked_list"],"additionalProperties":false}`,
	`{"type":"array","items":{"type":"array","prefixItems":[{"type":"number","multipleOf":0.1},{"type":"boolean"}],"items":false,"minItems":2},"minItems":1,"maxItems":3}`,
}

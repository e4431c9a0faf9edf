package main

import (
	"whorl/model/tokenizer"
)

// leastAnswer is the room, in tokens, that is made for an answer before it is clipped.
const leastAnswer = 64

// fitted is a conversation that has room for an answer.
type fitted struct {
	messages []tokenizer.Message
	ids      []int32
	answer   int // tokens that the answer may have; 0: not even the last message fits
	gone     int // messages that were let go
}

// fit makes room for an answer of so many tokens in a session of so many positions: the
// answer is clipped to what is left, and where that is little the oldest turns go, up to the
// next message of the user's. The system message and the last message stay.
func fit(messages []tokenizer.Message, positions, asked int, encode func([]tokenizer.Message) ([]int32, error)) (fitted, error) {
	f := fitted{messages: messages}
	for {
		ids, err := encode(f.messages)
		if err != nil {
			return f, err
		}
		f.ids, f.answer = ids, max(0, min(asked, positions-len(ids)))
		next := nextTurn(f.messages)
		if f.answer >= min(asked, leastAnswer, positions/4) || next == 0 {
			return f, nil
		}
		first := 0
		if f.messages[0].Role == "system" {
			first = 1
		}
		f.gone += next - first
		f.messages = append(f.messages[:first:first], f.messages[next:]...)
	}
}

// nextTurn is where the second turn of a conversation begins, 0 if there is but one.
func nextTurn(messages []tokenizer.Message) int {
	turns := 0
	for i, m := range messages {
		if m.Role == "user" {
			if turns++; turns == 2 {
				return i
			}
		}
	}
	return 0
}

package responses

import (
	"encoding/json"
	"reflect"
	"testing"

	"whorl/api/gen"
)

// What is kept comes back as it was: a conversation that goes on from it is to the model what one
// is that was never kept.
func TestStoredComesBack(t *testing.T) {
	text, empty, said := gen.Content("Größe \"<b>\" \U0001F600 \u2028"), gen.Content(""), "7"
	call, name := "call_1", "f"
	status, assistant := gen.ResponseItemStatusCompleted, gen.ResponseItemRoleAssistant
	want := &stored{
		Response: gen.Response{
			Id: "resp_1", Object: gen.ResponseObjectResponse, Status: gen.ResponseStatusCompleted, Store: true, Metadata: map[string]string{"k": "v"},
			Tools: gen.RawJSON(`[{"type":"function","name":"f","parameters":{"b":1,"a":1.0}}]`), ToolChoice: gen.RawJSON(`"auto"`),
			Output: []gen.ResponseItem{{Id: "msg_1", Type: gen.ResponseItemTypeMessage, Status: &status, Role: &assistant, Content: &[]gen.ResponsePart{{Type: gen.ResponsePartTypeOutputText, Text: "x", Annotations: none(), Logprobs: none()}}}},
		},
		Input: []gen.ResponseItem{{Id: "item_1", Type: gen.ResponseItemTypeFunctionCallOutput, CallId: &call, Output: &said}},
		History: []gen.ChatMessage{
			{Role: gen.ChatMessageRoleUser, Content: &text}, {Role: gen.ChatMessageRoleAssistant, Content: &empty},
			{Role: gen.ChatMessageRoleAssistant, ToolCalls: []gen.ToolCall{
				{Id: &call, Function: gen.FunctionCall{Name: name, Arguments: json.RawMessage(`{"z":1e2,"a":[null]}`)}},
				{Function: gen.FunctionCall{Name: name, Arguments: json.RawMessage(`"not { json"`)}},
			}},
			{Role: gen.ChatMessageRoleTool, ToolCallId: &call, Content: &text},
		},
	}
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := new(stored)
	if err := json.Unmarshal(body, got); err != nil || !reflect.DeepEqual(got, want) {
		again, _ := json.Marshal(got)
		t.Errorf("%v\n got %s\nwant %s", err, again, body)
	}
}

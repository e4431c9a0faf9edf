// Package calls is how models call tools in what they write: the formats of their families, a
// parser that takes an answer apart however it comes in pieces, and the grammar of an answer that
// has to be a call.
//
// A call begins with a mark of its family ("<tool_call>", "[TOOL_CALLS]"), or where the family has
// none with the answer itself, and is a JSON object of a name and arguments. It is one once the
// name is that of a tool that was offered and the arguments begin: what only looks like a call is
// text. From there on what the model writes is told as it comes, also where it is no JSON in the
// end.
//
// The package runs nothing, and knows neither HTTP nor models.
package calls

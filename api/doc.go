// Package api is a node's HTTP face: the control plane and the swarm's state under
// /api/v1, the OpenAI surface under /v1, the chat protocol of Petals under
// /api/v1/generate and /api/v2/generate. The contract is openapi.yaml; api/gen is made
// from it, and requests are checked against it.
//
// It has two handlers for two listeners: Public, and Admin, which alone can change the
// node. Who may reach which is decided in access.go; how an error becomes a status in
// problem.go.
//
// It does not listen, knows no flags, draws no pages (web), and generates nothing itself:
// client does.
package api

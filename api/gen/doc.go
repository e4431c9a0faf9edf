// Package gen is openapi.yaml as Go: the types of its schemas and the interface a server
// of it has. Generated, but for doc.go and unions.go. It does not handle any request.
package gen

import _ "embed"

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config config.yaml ../../openapi.yaml
//go:generate cp ../../openapi.yaml openapi.yaml

// Document is the contract's text, a copy of the openapi.yaml at the root: embedding
// cannot reach there.
//
//go:embed openapi.yaml
var Document []byte

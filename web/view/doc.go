// Package view draws the dashboard: view models (plain data, ready to be shown), the templ
// components that turn them into HTML, and the embedded static files. It decides nothing
// about the swarm and asks nobody; web fills the models.
//
// Text that comes from strangers is escaped by templ; Name also caps it and takes invisible
// characters out. Pages work under a content security policy of 'self': no inline script,
// no inline style, nothing from elsewhere.
package view

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.1118 generate

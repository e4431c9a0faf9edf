// Package migrations holds the database schema as numbered SQL files, embedded in the
// binary. store applies them with goose. It runs nothing itself. A file that was released
// is never changed: a new one follows it.
package migrations

import "embed"

// Files are the migrations, named NNNNN_what.sql.
//
//go:embed *.sql
var Files embed.FS

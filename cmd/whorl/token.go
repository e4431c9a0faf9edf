package main

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"whorl/internal/atomicfile"
)

// maxToken is more than any token has, in bytes.
const maxToken = 4 << 10

// readToken takes the token of the public listener from its file. Where there is none it makes
// one, so that nobody has to think of a token, and none is the same everywhere.
func (f *httpFlags) readToken() error {
	if f.tokenFile == "" || f.http == off {
		return nil
	}
	if f.httpToken != "" {
		return usage(errors.New("--http-token and --http-token-file exclude each other: give one"))
	}
	b, err := os.ReadFile(f.tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.httpToken = rand.Text()
		if err := os.MkdirAll(filepath.Dir(f.tokenFile), 0o700); err != nil {
			return usagef("--http-token-file: %w", err)
		}
		if err := atomicfile.Write(f.tokenFile, []byte(f.httpToken+"\n"), 0o600); err != nil {
			return usagef("--http-token-file: %w", err)
		}
		slog.Info("the token of --http is a new one", "file", f.tokenFile)
		return nil
	case err != nil:
		return usagef("--http-token-file: %w", err)
	}
	f.httpToken = strings.TrimSpace(string(b))
	if f.httpToken == "" || len(b) > maxToken || strings.ContainsAny(f.httpToken, " \t\r\n") {
		return usagef("--http-token-file: %s does not hold one word: put the token there, or remove the file for a new one", f.tokenFile)
	}
	return nil
}

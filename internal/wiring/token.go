package wiring

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
func (f *HTTPOptions) readToken() error {
	if f.TokenFile == "" || f.HTTP == Off {
		return nil
	}
	if f.HTTPToken != "" {
		return Usage(errors.New("--http-token and --http-token-file exclude each other: give one"))
	}
	b, err := os.ReadFile(f.TokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.HTTPToken = rand.Text()
		if err := os.MkdirAll(filepath.Dir(f.TokenFile), 0o700); err != nil {
			return Usagef("--http-token-file: %w", err)
		}
		if err := atomicfile.Write(f.TokenFile, []byte(f.HTTPToken+"\n"), 0o600); err != nil {
			return Usagef("--http-token-file: %w", err)
		}
		slog.Info("the token of --http is a new one", "file", f.TokenFile)
		return nil
	case err != nil:
		return Usagef("--http-token-file: %w", err)
	}
	f.HTTPToken = strings.TrimSpace(string(b))
	if f.HTTPToken == "" || len(b) > maxToken || strings.ContainsAny(f.HTTPToken, " \t\r\n") {
		return Usagef("--http-token-file: %s does not hold one word: put the token there, or remove the file for a new one", f.TokenFile)
	}
	return nil
}

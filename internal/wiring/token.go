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

// readTokens takes the tokens of the listeners from their files.
func (f *HTTPOptions) readTokens() (err error) {
	if f.HTTP != Off {
		if f.HTTPToken, err = tokenOf("http", f.TokenFile, f.HTTPToken, true); err != nil {
			return err
		}
	}
	if f.Admin != Off {
		f.AdminToken, err = tokenOf("admin", f.AdminTokenFile, f.AdminToken, true)
	}
	return err
}

// AdminToken is the token that a caller of an admin listener shows: the given one, or that of the file.
func AdminToken(file, given string) (string, error) { return tokenOf("admin", file, given, false) }

// tokenOf is the token of a listener: the given one, or that of its file. Where there is no file,
// the listener makes one, so that nobody has to think of a token, and none is the same everywhere.
func tokenOf(listener, file, given string, makes bool) (string, error) {
	flag := "--" + listener + "-token-file"
	if file == "" {
		return given, nil
	}
	if given != "" {
		return "", Usagef("--%s-token and %s exclude each other: give one", listener, flag)
	}
	b, err := os.ReadFile(file)
	if makes && errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return "", Usagef("%s: %w", flag, err)
		}
		if err := atomicfile.Write(file, []byte(token+"\n"), 0o600); err != nil {
			return "", Usagef("%s: %w", flag, err)
		}
		slog.Info("the token of --"+listener+" is a new one", "file", file)
		return token, nil
	}
	if err != nil {
		return "", Usagef("%s: %w", flag, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(b) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return "", Usagef("%s: %s does not hold one word: put the token there, or remove the file for a new one", flag, file)
	}
	return token, nil
}

package wiring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	ma "github.com/multiformats/go-multiaddr"

	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
	"whorl/model"
	"whorl/swarm/p2p"
)

// DataOptions say what a node keeps between runs, and where (ADR 0021).
type DataOptions struct {
	DataDir   string
	Ephemeral bool
	CacheDir  string // of Petals: models of the hub, and what --data-dir holds where that is not given
}

// root is the folder of all nodes; "" for none. chosen tells that a flag names it.
func (f *DataOptions) root(ctx context.Context) (path string, chosen bool) {
	switch {
	case f.Ephemeral:
		return "", false
	case f.DataDir != "":
		return f.DataDir, true
	case f.CacheDir != "":
		return f.CacheDir, true
	}
	return userDataDir(runtime.GOOS, func(name string) string { return Getenv(ctx, name) }), false
}

// userDataDir is where programs of a user keep data that no other program reads, as each
// system wants it; "" if the environment does not tell.
func userDataDir(goos string, getenv func(string) string) string {
	under := func(variable string, parts ...string) string {
		base := getenv(variable)
		if base == "" {
			return ""
		}
		return filepath.Join(append([]string{base}, parts...)...)
	}
	switch goos {
	case "windows":
		return under("LocalAppData", "whorl")
	case "darwin":
		return under("HOME", "Library", "Application Support", "whorl")
	}
	if base := getenv("XDG_DATA_HOME"); filepath.IsAbs(base) { // another is to be ignored, says its standard
		return filepath.Join(base, "whorl")
	}
	return under("HOME", ".local", "share", "whorl")
}

// contentsCache is where a node remembers what files contain; nowhere without a folder.
func (f *DataOptions) contentsCache(ctx context.Context) model.ContentsCache {
	root, _ := f.root(ctx)
	if root == "" {
		return ""
	}
	return model.ContentsCache(filepath.Join(root, "contents"))
}

// maxHomes is how many nodes of one kind and swarm a folder serves at once.
const maxHomes = 256

// home is what one node keeps between runs: a folder that no other process uses meanwhile.
// Its zero value keeps nothing.
type home struct {
	path string // "" for none
	lock *os.File
}

// open takes the first folder for nodes of a kind in a swarm that no running node has, so that
// nodes of one machine each find an identity, and the same ones when they start again in turn.
func (f *DataOptions) open(ctx context.Context, swarm, kind string) (home, error) {
	root, chosen := f.root(ctx)
	if root == "" {
		if !f.Ephemeral {
			slog.Warn("nothing is kept between runs, since the environment names no home folder: name one with --data-dir")
		}
		return home{}, nil
	}
	for n := 1; n <= maxHomes; n++ {
		name := kind
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
		h, err := openHome(filepath.Join(root, "nodes", name+"@"+swarm))
		switch {
		case err != nil && chosen:
			return home{}, Usagef("--data-dir: %w", err)
		case err != nil: // nobody asked for it: a node that can compute does
			slog.Warn("nothing is kept between runs, since the data folder cannot be used: name another with --data-dir", "reason", err)
			return home{}, nil
		case h.path == "":
			continue // a running node has it
		case n > 1:
			slog.Info("other nodes of this kind run here: this one has a folder and an identity of its own", "folder", h.path)
		}
		return h, nil
	}
	return home{}, fmt.Errorf("%d nodes of kind %s run with the data folder %s already: give this one its own with --data-dir", maxHomes, kind, root)
}

// openHome makes and locks a folder; another process may have it, which gives none.
func openHome(path string) (home, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return home{}, err
	}
	lock, err := sharedfile.Open(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return home{}, err
	}
	held, err := sharedfile.Lock(lock, sharedfile.Exclusive)
	if err != nil || !held {
		lock.Close()
		return home{}, err
	}
	return home{path, lock}, nil
}

// close lets another process have the folder.
func (h home) close() {
	if h.lock != nil {
		h.lock.Close()
	}
}

// file is the path of a file of the folder; "" for none.
func (h home) file(name string) string {
	if h.path == "" {
		return ""
	}
	return filepath.Join(h.path, name)
}

// port is the port of the last run, if it is free; 0 for any.
func (h home) port() int {
	if h.path == "" {
		return 0
	}
	b, err := os.ReadFile(h.file("port"))
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || port < 1 || port > 65535 || !p2p.PortFree(port) {
		return 0
	}
	return port
}

// keepPort remembers the port of a node's addresses, so that invitations to it stay good.
func (h home) keepPort(addrs []string) {
	if h.path == "" {
		return
	}
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		port, err := a.ValueForProtocol(ma.P_TCP)
		if err != nil {
			continue
		}
		if err := atomicfile.Write(h.file("port"), []byte(port+"\n"), 0o600); err != nil {
			slog.Warn("the port cannot be kept: the node may have another one after a restart", "reason", err)
		}
		return
	}
}

// folderName is the swarm as names of folders have it: a private one is not the open one of
// its name.
func (f *SwarmOptions) folderName() (string, error) {
	key, err := f.secret()
	if err != nil || key == nil {
		return f.Swarm, err
	}
	h := sha256.Sum256(append([]byte("whorl private swarm\x00"), key...))
	return f.Swarm + "~" + hex.EncodeToString(h[:4]), nil
}

// checkData refuses what contradicts itself.
func (f *NodeOptions) checkData() error {
	if f.Ephemeral && f.IdentityPath != "" {
		return Usage(errors.New("--ephemeral and --identity-path exclude each other: one keeps nothing, the other an identity"))
	}
	return nil
}

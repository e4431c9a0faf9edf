package view

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// asset is a static file under a name that changes with its content.
type asset struct {
	path         string // as "/static/app.1a2b3c4d5e6f.css"
	kind         string
	body, zipped []byte
}

// kinds are media types by extension; those of the machine differ.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// assets by file name, and by path.
var assets, assetPaths = loadAssets()

// loadAssets reads what is embedded: it can fail only if the binary was built wrong.
func loadAssets() (byName, byPath map[string]*asset) {
	byName, byPath = map[string]*asset{}, map[string]*asset{}
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			return err
		}
		z.Write(body) // to memory
		z.Close()
		sum := sha256.Sum256(body)
		base, ext := path.Base(name), path.Ext(name)
		a := &asset{
			path: fmt.Sprintf("/static/%s.%s%s", strings.TrimSuffix(base, ext), hex.EncodeToString(sum[:6]), ext),
			kind: kinds[ext], body: body, zipped: zipped.Bytes(),
		}
		byName[base], byPath[a.path] = a, a
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("embedded static files: %v", err))
	}
	return byName, byPath
}

// Asset is the path of a static file. An unknown name is a bug.
func Asset(name string) string {
	a := assets[name]
	if a == nil {
		panic("no static file " + name)
	}
	return a.path
}

// Static serves the files: for ever, since another content has another path.
func Static(w http.ResponseWriter, r *http.Request) {
	a := assetPaths[r.URL.Path]
	if a == nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	h, body := w.Header(), a.body
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

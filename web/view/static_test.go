package view

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestStatic(t *testing.T) {
	for name, kind := range map[string]string{"app.css": "text/css", "live.js": "text/javascript", "play.js": "text/javascript", "logo.svg": "image/svg+xml"} {
		r := httptest.NewRequest("GET", Asset(name), nil)
		plain := httptest.NewRecorder()
		Static(plain, r)
		r.Header.Set("Accept-Encoding", "br, gzip")
		zipped := httptest.NewRecorder()
		Static(zipped, r)
		z, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil || string(body) != plain.Body.String() || len(body) == 0 {
			t.Errorf("%s: %d bytes zipped, %d plain, %v", name, len(body), plain.Body.Len(), err)
		}
		if got := plain.Header().Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%s has the type %q", name, got)
		}
		if !regexp.MustCompile(`^/static/[a-z]+\.[0-9a-f]{12}\.[a-z]+$`).MatchString(Asset(name)) {
			t.Errorf("%s has the path %q", name, Asset(name))
		}
	}
}

// No file asks for anything from elsewhere, and no script makes code of text.
func TestStaticIsSelfContained(t *testing.T) {
	elsewhere := regexp.MustCompile(`https?://[^"'\s)]+|@import|\beval\(|new Function`)
	for name, a := range assets {
		for _, at := range elsewhere.FindAllString(string(a.body), -1) {
			if at != "http://www.w3.org/2000/svg" {
				t.Errorf("%s holds %q", name, at)
			}
		}
	}
}

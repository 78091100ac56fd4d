// Package dashboard contains the gateway's web page: status, data, shuffle and performance.
//
// The page consists of plain JavaScript modules, one style sheet and a chart library (uPlot). They
// are embedded in the program, and nothing is loaded from other hosts. The page uses only the
// gateway's public HTTP API. The addresses of its views are in the URL fragment, which browsers do
// not send.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
)

//go:embed page
var embedded embed.FS

// Start is the page's first file.
const Start = "index.html"

// Policy is the page's Content-Security-Policy. Scripts and styles are files of the gateway. Images
// and audio are made from fetched bytes (blob:). Trusted types keep text of datasets from becoming
// HTML.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// File is one file of the page.
type File struct {
	Content []byte
	Gzip    []byte // compressed content, about a third of the size
	Type    string // media type
	ETag    string // strong, derived from the content
}

// Page maps file names to files. It is immutable.
type Page map[string]File

// New reads the embedded page.
func New() (Page, error) {
	entries, err := fs.ReadDir(embedded, "page")
	if err != nil {
		return nil, fmt.Errorf("list the page's files: %w", err)
	}
	page := Page{}
	for _, e := range entries {
		content, err := fs.ReadFile(embedded, path.Join("page", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a file of the page: %w", err)
		}
		kind, err := mediaType(e.Name())
		if err != nil {
			return nil, err
		}
		packed, err := compress(content)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		page[e.Name()] = File{Content: content, Gzip: packed, Type: kind, ETag: `"` + hex.EncodeToString(sum[:16]) + `"`}
	}
	return page, nil
}

func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress a file of the page: %w", err)
	}
	return b.Bytes(), nil
}

// mediaType does not use the system's tables, which differ between machines.
func mediaType(name string) (string, error) {
	kind, ok := map[string]string{
		".html": "text/html; charset=utf-8",
		".js":   "text/javascript; charset=utf-8",
		".css":  "text/css; charset=utf-8",
		".svg":  "image/svg+xml",
		".txt":  "text/plain; charset=utf-8",
	}[path.Ext(name)]
	if !ok {
		return "", fmt.Errorf("the page's file %s has no media type", name)
	}
	return kind, nil
}

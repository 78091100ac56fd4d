// Package dashboard holds the page that a gateway shows to people: the data, the order and the waiting.
//
// The page is a handful of plain JavaScript modules, one style sheet and a chart library (uPlot). They
// are part of the program, and nothing comes from another host. The page reads what every client can
// read: the gateway's HTTP interface. Its views have their addresses in the fragment of the URL, which a
// browser sends to nobody.
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

// Start is the file that the page begins with.
const Start = "index.html"

// Policy is the page's Content-Security-Policy. Scripts and styles are files of the gateway, pictures
// and sounds come out of bytes that the page has fetched (blob:), and text never becomes HTML (trusted
// types), whatever a dataset holds.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// File is one file of the page.
type File struct {
	Content []byte
	Gzip    []byte // the same, compressed: a third of it
	Type    string // its media type
	ETag    string // strong, from the content
}

// Page is all files of the page by their names. It never changes.
type Page map[string]File

// New reads the page out of the program.
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

// mediaType does not ask the system, whose tables differ from one machine to the next.
func mediaType(name string) (string, error) {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8", nil
	case ".js":
		return "text/javascript; charset=utf-8", nil
	case ".css":
		return "text/css; charset=utf-8", nil
	case ".svg":
		return "image/svg+xml", nil
	case ".txt":
		return "text/plain; charset=utf-8", nil
	}
	return "", fmt.Errorf("the page's file %s has no media type", name)
}

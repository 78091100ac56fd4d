package certs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Config names the files of a certificate.
type Config struct {
	Cert string // PEM: the certificate, and the intermediate certificates between it and its authority
	Key  string // PEM: the private key of the certificate
	CA   string // PEM: the accepted authorities

	// Changed is called once for each content of the files. Its argument is nil if the content
	// is in use now, otherwise the reason why the old certificate is kept. It must not block.
	Changed func(error)
}

// Files are the files of a certificate. They are checked for changes when a connection is made: the
// new connection uses their new content, and open connections are kept. If the new content is
// invalid, the old certificate is kept. No goroutine runs in the background. Files is safe for
// concurrent use.
type Files struct {
	check   func(texts [][]byte, now time.Time) (*identity, error)
	changed func(error)

	mu    sync.Mutex // guards the fields below
	files []*file
	fault error     // why the content of the files is not in use; nil: it is in use
	now   *identity // last valid content of the files
}

// file is one file in the state of its last read.
type file struct {
	what string // prefix of its errors
	name string

	text    []byte      // nil: the file could not be read
	info    fs.FileInfo // state of the file when text was read
	settled bool        // any later change of the content would change info
}

// settling is the time after a file's last write during which the file is read at every check. A
// second write within one tick of the file system's clock can leave size and time unchanged. The
// coarsest tick in use is two seconds.
const settling = 2 * time.Second

// newFiles reads the files and checks them.
func newFiles(files []*file, cfg Config, check func([][]byte, time.Time) (*identity, error)) (*Files, error) {
	for _, x := range files {
		if x.name == "" {
			return nil, fmt.Errorf("%s: the name of the file is missing", x.what)
		}
	}
	f := &Files{check: check, changed: cfg.Changed, files: files}
	now := time.Now()
	if _, err := f.read(now); err != nil {
		return nil, err
	}
	var err error
	if f.now, err = check(f.texts(), now); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads the files that may have changed, and reports whether one has. It reads all of them,
// and returns the first error.
func (f *Files) read(now time.Time) (changed bool, first error) {
	for _, x := range f.files {
		other, err := x.read(now)
		changed = changed || other
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", x.what, err)
		}
	}
	return changed, first
}

func (f *Files) texts() [][]byte {
	texts := make([][]byte, len(f.files))
	for i, x := range f.files {
		texts[i] = x.text
	}
	return texts
}

// read reads the file if it may have changed, and reports whether its content has.
func (x *file) read(now time.Time) (changed bool, err error) {
	info, err := os.Stat(x.name)
	if err == nil && x.settled && os.SameFile(info, x.info) && info.Size() == x.info.Size() && info.ModTime().Equal(x.info.ModTime()) {
		return false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: must be a regular file, because it is read again when it changes", x.name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(x.name)
	}
	changed = !bytes.Equal(text, x.text)
	x.text, x.info, x.settled = text, info, err == nil && now.Sub(info.ModTime()) > settling
	return changed, err
}

// current returns the content of the files, or their last valid content.
func (f *Files) current() *identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	changed, err := f.read(now)
	if !changed && f.fault == nil {
		return f.now
	}
	// A content that was invalid is checked again, because a certificate may have become valid
	// since.
	if err == nil {
		var id *identity
		if id, err = f.check(f.texts(), now); err == nil {
			f.now = id
		}
	}
	if f.fault = err; f.changed != nil && (changed || err == nil) {
		f.changed(err)
	}
	return f.now
}

// Expires returns the time at which the certificate in use expires.
func (f *Files) Expires() time.Time { return f.current().cert.Leaf.NotAfter }

// Fault returns why the content of the files is not in use, or nil.
func (f *Files) Fault() error {
	f.current()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

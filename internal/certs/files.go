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
	Cert string // PEM: the certificate, and those between it and its authority
	Key  string // PEM: its private key
	CA   string // PEM: the authorities whose certificates are believed

	// Changed is told once of each content of the files: nil where the content is in use now, else why
	// the old certificate stays. It must not block.
	Changed func(error)
}

// Files are the files of a certificate. They are looked at when a connection is made: the next
// connection is made with their new content, open connections stay. Where the new content is of no
// use, the old certificate stays. Nothing runs in the background. Files is safe for concurrent use.
type Files struct {
	check   func(texts [][]byte, now time.Time) (*identity, error)
	changed func(error)

	mu    sync.Mutex // guards the fields below
	files []*file
	fault error     // why the content of the files is not in use; nil: it is
	now   *identity // what the files said when they were last of use
}

// file is one file as it was last read.
type file struct {
	what string // begins its errors
	name string

	text    []byte      // nil: it could not be read
	info    fs.FileInfo // of the text
	settled bool        // another content would have another info
}

// settling is for how long after a file's last write the file is read again each time: a second
// write within one tick of the file system's clock leaves size and time as they were. Two seconds
// is the coarsest tick in use.
const settling = 2 * time.Second

// newFiles reads the files and checks them.
func newFiles(files []*file, cfg Config, check func([][]byte, time.Time) (*identity, error)) (*Files, error) {
	for _, x := range files {
		if x.name == "" {
			return nil, fmt.Errorf("%s: no file is named", x.what)
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

// read reads the files that may have another content than before, and reports whether one has. It
// reads all of them, and returns the first error.
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

// read makes text the file's content, and reports whether it was another one before.
func (x *file) read(now time.Time) (changed bool, err error) {
	info, err := os.Stat(x.name)
	if err == nil && x.settled && os.SameFile(info, x.info) && info.Size() == x.info.Size() && info.ModTime().Equal(x.info.ModTime()) {
		return false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: want a regular file, since it is read again when it changes", x.name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(x.name)
	}
	changed = !bytes.Equal(text, x.text)
	x.text, x.info, x.settled = text, info, err == nil && now.Sub(info.ModTime()) > settling
	return changed, err
}

// current returns what the files say now, or what they said when they were last of use.
func (f *Files) current() *identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	changed, err := f.read(now)
	if !changed && f.fault == nil {
		return f.now
	}
	// A content that was of no use is looked at again: a certificate's time may have begun since.
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

// Expires returns until when the certificate in use is good.
func (f *Files) Expires() time.Time { return f.current().cert.Leaf.NotAfter }

// Fault returns why the content of the files is not in use, nil where it is.
func (f *Files) Fault() error {
	f.current()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

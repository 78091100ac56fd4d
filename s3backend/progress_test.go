package s3backend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestReads_GiveUpOnlyWithoutProgress cuts every response after ten bytes. If ten bytes count as
// progress, reads continue. Otherwise they end after the maximum number of attempts, however many
// bytes have arrived in total.
func TestReads_GiveUpOnlyWithoutProgress(t *testing.T) {
	const cut, attempts = 10, 3
	data := sample(5 * cut) // short enough that both reads need fewer retries than the budget gains in a second
	for progress, fails := range map[int64]error{cut: nil, cut + 1: objstore.ErrShort} {
		s := serve(t, func(c net.Conn, r request) bool {
			from, _ := rangeOf(r, len(data))
			head(c, "206 Partial Content", etag(testETag), contentRange(from, len(data)-1, len(data)), fmt.Sprintf("Content-Length: %d", len(data)-from))
			c.Write(data[from:min(from+cut, len(data))])
			return false
		})
		policy := quick()
		policy.attempts, policy.progress = attempts, progress
		b := backend(t, s, policy)
		got := make([]byte, len(data)-1)
		if err := b.ReadRange(t.Context(), ref, 1, got); !errors.Is(err, fails) || err == nil && !bytes.Equal(got, data[1:]) {
			t.Errorf("read, %d bytes are progress: got %v, want %v", progress, err, fails)
		}
		r, err := b.Open(t.Context(), ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err = io.ReadAll(r)
		if !errors.Is(err, fails) || err == nil && !bytes.Equal(got, data) || err != nil && len(got) != attempts*cut {
			t.Errorf("open, %d bytes are progress: got %d bytes, %v, want %v", progress, len(got), err, fails)
		}
		r.Close()
	}
}

// TestReadRange_NeverMixesVersions resumes a read and finds another version, although the caller
// has requested no version.
func TestReadRange_NeverMixesVersions(t *testing.T) {
	data := sample(30)
	s := serve(t, func(c net.Conn, r request) bool {
		from, _ := rangeOf(r, len(data))
		tag := testETag
		if r.n > 0 {
			tag = "other"
		}
		head(c, "206 Partial Content", etag(tag), contentRange(from, 29, 30), fmt.Sprintf("Content-Length: %d", 30-from))
		c.Write(data[from:min(from+10, 30)])
		return false
	})
	if err := backend(t, s, quick()).ReadRange(t.Context(), objstore.Ref{Key: testKey}, 1, make([]byte, 29)); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("got %v, want %v", err, objstore.ErrChanged)
	}
	if len(s.match) != 2 || s.match[1] != `"`+testETag+`"` {
		t.Errorf("got conditions %q, want the version that was begun", s.match)
	}
}

// faulty is a provider that fails while it has an error.
type faulty struct {
	provider
	err error
}

func (f *faulty) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return credentials.Value{AccessKeyID: f.id}, f.err
}

// TestSteady_ForgetsTheFaultBeforeItsFirstKey checks that, once a key was found, no later call
// returns an error.
func TestSteady_ForgetsTheFaultBeforeItsFirstKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fault := errors.New("fault")
		src := &faulty{err: fault}
		s := &stickyCredentials{source: src}
		for i, step := range []struct {
			id   string
			err  error
			want error
		}{
			{"", fault, fault}, {"one", nil, fault}, // the source is not queried again for a while
			{"one", nil, nil}, {"", fault, nil}, {"", fault, nil}, {"", nil, nil},
		} {
			if i == 2 {
				time.Sleep(lookAgain)
			}
			src.id, src.err = step.id, step.err
			if v, err := s.Retrieve(); !errors.Is(err, step.want) || err == nil && v.AccessKeyID != "one" {
				t.Errorf("step %d: got key %q, %v, want %v", i, v.AccessKeyID, err, step.want)
			}
		}
	})
}

// TestProfile_IsExpiredUntilItGaveCredentials checks that a profile counts as expired until it has
// returned credentials, as credentials.Provider requires.
func TestProfile_IsExpiredUntilItGaveCredentials(t *testing.T) {
	sharedFiles(t, "", "[team]\naws_access_key_id = one\naws_secret_access_key = s\n")
	p := &profile{name: "team"}
	if !p.IsExpired() {
		t.Error("before it gave any: not expired")
	}
	if v, err := p.Retrieve(); err != nil || v.AccessKeyID != "one" || p.IsExpired() {
		t.Errorf("got %q, %v, expired: %t, want a key that stays", v.AccessKeyID, err, p.IsExpired())
	}
}

package s3backend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// signer signs requests without a body by Signature Version 4. It caches the result of four of the
// five keyed hashes of a signature, since that is the same for a whole day. minio-go's signer does
// not cache it.
type signer struct {
	region, service string
	kept            atomic.Pointer[dayKey]
}

// dayKey is the signing key for one day and one secret.
type dayKey struct {
	day, secret string
	buffers     sync.Pool // of *signingBuffer
}

// signingBuffer is the memory for one signature, for reuse.
type signingBuffer struct {
	mac  hash.Hash // HMAC with the day's key
	text []byte
}

const (
	secondFormat = "20060102T150405Z"
	emptySum     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of the empty string
)

// sign adds the headers of a signature with the credentials v at the time now. Path and query of
// the request must be escaped as AWS requires it.
func (s *signer) sign(req *http.Request, v *credentials.Value, now time.Time) {
	second := now.UTC().Format(secondFormat)
	day, _, _ := strings.Cut(second, "T")
	set(req.Header, "X-Amz-Date", second)
	set(req.Header, "X-Amz-Content-Sha256", emptySum)
	if v.SessionToken != "" {
		set(req.Header, "X-Amz-Security-Token", v.SessionToken)
	}
	key := s.keyOf(day, v.SecretAccessKey)
	p, _ := key.buffers.Get().(*signingBuffer)
	defer key.buffers.Put(p)
	text, names := canonical(p.text[:0], req)
	sum := sha256.Sum256(text)
	scope := day + "/" + s.region + "/" + s.service + "/aws4_request"
	text = add(text[:0], "AWS4-HMAC-SHA256\n", second, "\n", scope, "\n")
	p.text = hex.AppendEncode(text, sum[:])
	p.mac.Reset()
	p.mac.Write(p.text)
	signature := hex.EncodeToString(p.mac.Sum(sum[:0]))
	set(req.Header, "Authorization", "AWS4-HMAC-SHA256 Credential="+v.AccessKeyID+"/"+scope+", SignedHeaders="+names+", Signature="+signature)
}

func set(h http.Header, name, value string) { h[name] = []string{value} }

// canonical appends the canonical text of a request. It returns the names of the headers in that
// text: all headers that requests of this package may have, in order.
func canonical(text []byte, req *http.Request) (_ []byte, names string) {
	text = add(text, req.Method, "\n", req.URL.EscapedPath(), "\n", req.URL.RawQuery, "\nhost:", req.URL.Host, "\n")
	names = "host"
	for _, h := range [...]struct{ name, lower string }{
		{"If-Match", ";if-match"},
		{"Range", ";range"},
		{"X-Amz-Content-Sha256", ";x-amz-content-sha256"},
		{"X-Amz-Date", ";x-amz-date"},
		{"X-Amz-Security-Token", ";x-amz-security-token"},
	} {
		if value := req.Header[h.name]; len(value) > 0 {
			text = add(text, h.lower[1:], ":", value[0], "\n")
			names += h.lower
		}
	}
	return add(text, "\n", names, "\n", emptySum), names
}

// add appends strings to text, without concatenating them first.
func add(text []byte, parts ...string) []byte {
	for _, part := range parts {
		text = append(text, part...)
	}
	return text
}

// keyOf returns the signing key for a day.
func (s *signer) keyOf(day, secret string) *dayKey {
	if k := s.kept.Load(); k != nil && k.day == day && k.secret == secret {
		return k
	}
	key := []byte("AWS4" + secret)
	for _, part := range [...]string{day, s.region, s.service, "aws4_request"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	k := &dayKey{day: day, secret: secret, buffers: sync.Pool{New: func() any { return &signingBuffer{mac: hmac.New(sha256.New, key)} }}}
	s.kept.Store(k)
	return k
}

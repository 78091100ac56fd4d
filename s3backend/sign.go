package s3backend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// signer signs requests without a body by Signature Version 4. Four of the five keyed hashes of a
// signature depend on the day only, so it keeps their result: minio-go's signer cannot.
type signer struct {
	region, service string
	kept            atomic.Pointer[dayKey]
}

// dayKey is what signs all requests of one day that one secret signs.
type dayKey struct {
	day, secret string
	key         []byte
}

const (
	dayFormat    = "20060102"
	secondFormat = "20060102T150405Z"
	emptySum     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of no bytes
)

// sign adds the headers of a signature by v at the time now. The request's path and query are
// escaped as AWS escapes them: every byte but letters, digits, "-", "_", "." and "~".
func (s *signer) sign(req *http.Request, v *credentials.Value, now time.Time) {
	second := now.UTC().Format(secondFormat)
	day := second[:len(dayFormat)]
	req.Header["X-Amz-Date"] = []string{second}
	req.Header["X-Amz-Content-Sha256"] = []string{emptySum}
	if v.SessionToken != "" {
		req.Header["X-Amz-Security-Token"] = []string{v.SessionToken}
	}
	canonical, names := canonicalRequest(req)
	sum := sha256.Sum256([]byte(canonical))
	scope := day + "/" + s.region + "/" + s.service + "/aws4_request"
	signature := keyedHash(s.keyOf(day, v.SecretAccessKey), "AWS4-HMAC-SHA256\n"+second+"\n"+scope+"\n"+hex.EncodeToString(sum[:]))
	req.Header["Authorization"] = []string{
		"AWS4-HMAC-SHA256 Credential=" + v.AccessKeyID + "/" + scope + ", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(signature),
	}
}

// canonicalRequest returns the text that is signed, and the names of the headers in it: all that
// a request may have, in order.
func canonicalRequest(req *http.Request) (text, names string) {
	var lines, signed strings.Builder
	lines.Grow(1 << 10)
	for _, part := range [...]string{req.Method, req.URL.EscapedPath(), req.URL.RawQuery} {
		lines.WriteString(part)
		lines.WriteByte('\n')
	}
	lines.WriteString("host:" + req.URL.Host + "\n")
	signed.WriteString("host")
	for _, h := range [...][2]string{
		{"If-Match", "if-match"}, {"Range", "range"}, {"X-Amz-Content-Sha256", "x-amz-content-sha256"},
		{"X-Amz-Date", "x-amz-date"}, {"X-Amz-Security-Token", "x-amz-security-token"},
	} {
		if value := req.Header[h[0]]; len(value) > 0 {
			lines.WriteString(h[1] + ":" + value[0] + "\n")
			signed.WriteString(";" + h[1])
		}
	}
	lines.WriteString("\n" + signed.String() + "\n" + emptySum)
	return lines.String(), signed.String()
}

// keyOf returns the key of a day.
func (s *signer) keyOf(day, secret string) []byte {
	if k := s.kept.Load(); k != nil && k.day == day && k.secret == secret {
		return k.key
	}
	key := []byte("AWS4" + secret)
	for _, part := range [...]string{day, s.region, s.service, "aws4_request"} {
		key = keyedHash(key, part)
	}
	s.kept.Store(&dayKey{day: day, secret: secret, key: key})
	return key
}

func keyedHash(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escape returns s as AWS wants it in a path, or as a value of a query, where slashes are escaped too.
func escape(s string, slashes bool) string {
	var out strings.Builder
	out.Grow(len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0, c == '/' && !slashes:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

package s3backend

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	theirs "github.com/minio/minio-go/v7/pkg/signer"
)

// published is the account that AWS's documentation of Signature Version 4 uses.
var published = credentials.Value{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}

// TestPublishedSignatures signs the requests without a body that AWS's documentation contains.
func TestPublishedSignatures(t *testing.T) {
	s := signer4("us-east-1")
	for _, c := range []struct{ target, width, names, want string }{
		{"/test.txt", "bytes=0-9", "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"/?lifecycle=", "", "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"/?max-keys=2&prefix=J", "", "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		req := request4(t, "https://examplebucket.s3.amazonaws.com"+c.target)
		if c.width != "" {
			req.Header.Set("Range", c.width)
		}
		s.sign(req, &published, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
		want := "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=" + c.names + ", Signature=" + c.want
		if got := req.Header.Get("Authorization"); got != want {
			t.Errorf("%s: got %s, want %s", c.target, got, want)
		}
	}
}

func signer4(region string) *signer { return &signer{region: region, service: "s3"} }

func request4(t *testing.T, target string) *http.Request {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
}

// oddKeys are keys that libraries escape in different ways.
func oddKeys() []string {
	return []string{
		"a/shard.tar", "with space", "plus+sign", "per%cent", "%41", "a//b", "/first", "last/", "déjà/vu", "日本/語", "q?x=1&y", "#frag", "a:b@c,d;e=f",
		"(par)[en]{th}", "quote'\"`", "tilde~!*$", "back\\slash", "tab\tin", "..", "a/../b", strings.Repeat("ü ", 100), "emoji😀", "\x7f", "<>|^",
	}
}

// TestSignsAsMinIOGoDoes compares the signatures of reads with those of minio-go, which servers are
// known to accept. It covers odd keys, versions and temporary credentials, with and without the
// optional headers.
func TestSignsAsMinIOGoDoes(t *testing.T) {
	s := signer4("eu-west-1")
	for i, key := range oddKeys() {
		for _, temporary := range []bool{false, true} {
			for bits := range 8 {
				v := credentials.Value{AccessKeyID: "id", SecretAccessKey: fmt.Sprint("secret", i%2)}
				if temporary {
					v.SessionToken = "token/with+signs=="
				}
				req := request4(t, "http://store.test:9000/")
				req.URL.Path, req.URL.RawPath = "/train/"+key, "/train/"+s3utils.EncodePath(key)
				if bits&1 > 0 {
					req.Header.Set("Range", "bytes=3-9")
				}
				if bits&2 > 0 {
					req.Header.Set("If-Match", `"`+testETag+`"`)
				}
				if bits&4 > 0 {
					req.URL.RawQuery = "versionId=v%2F1%20%2B%3D~"
				}
				want := req.Clone(t.Context())
				want.Header.Set("X-Amz-Content-Sha256", emptySum)
				want = theirs.SignV4(*want, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, "eu-west-1")
				now, err := time.Parse(secondFormat, want.Header.Get("X-Amz-Date"))
				if err != nil {
					t.Fatal(err)
				}
				s.sign(req, &v, now)
				if fmt.Sprint(req.Header) != fmt.Sprint(want.Header) {
					t.Errorf("%q, headers %03b: got %v, want %v", key, bits, req.Header, want.Header)
				}
				if got, want := req.URL.RequestURI(), "/train/"+s3utils.EncodePath(key); got != want && bits&4 == 0 {
					t.Errorf("%q: asks for %s, minio-go for %s", key, got, want)
				}
			}
		}
	}
}

// TestKeyOfTheDay signs before and after midnight, and with different secrets. It checks that a
// cached key of another day or secret is never used.
func TestKeyOfTheDay(t *testing.T) {
	kept := signer4("us-east-1")
	evening := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	local := time.FixedZone("far east", 9*3600)
	for i, step := range []struct {
		at     time.Time
		secret string
	}{{evening, "one"}, {evening.Add(time.Second), "one"}, {evening.Add(time.Second).In(local), "two"}, {evening, "two"}, {evening.In(local), "one"}} {
		v := credentials.Value{AccessKeyID: "id", SecretAccessKey: step.secret}
		got, want := request4(t, "http://h/k"), request4(t, "http://h/k")
		kept.sign(got, &v, step.at)
		signer4("us-east-1").sign(want, &v, step.at.UTC())
		if got.Header.Get("Authorization") != want.Header.Get("Authorization") {
			t.Errorf("step %d: got %s, want %s", i, got.Header.Get("Authorization"), want.Header.Get("Authorization"))
		}
	}
}

package harness

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Temporary returns MinIO with temporary credentials, which have a session token and expire after
// an hour.
func (s *Store) Temporary(t testing.TB) *Store {
	t.Helper()
	const form = "Action=AssumeRole&DurationSeconds=3600&Version=2011-06-15"
	req, err := http.NewRequest(http.MethodPost, s.Setting(t, "AWS_ENDPOINT_URL_S3")+"/", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	signForm(req, form, s.Setting(t, "AWS_ACCESS_KEY_ID"), s.Setting(t, "AWS_SECRET_ACCESS_KEY"), s.Setting(t, "AWS_REGION"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Result struct {
			Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken string }
		} `xml:"AssumeRoleResult"`
	}
	v := &got.Result.Credentials
	if err := xml.Unmarshal(body, &got); err != nil || v.SessionToken == "" {
		t.Fatalf("temporary credentials of %s: got status %d and %v: %s", s.Name, resp.StatusCode, err, body)
	}
	return s.With("AWS_ACCESS_KEY_ID="+v.AccessKeyId, "AWS_SECRET_ACCESS_KEY="+v.SecretAccessKey, "AWS_SESSION_TOKEN="+v.SessionToken)
}

// signForm signs a form for the service that issues credentials, with Signature Version 4.
func signForm(req *http.Request, form, id, secret, region string) {
	second := time.Now().UTC().Format("20060102T150405Z")
	scope := []string{second[:8], region, "sts", "aws4_request"}
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write([]byte(text)) // a hash never returns an error
		return h.Sum(nil)
	}
	canonical := "POST\n/\n\nhost:" + req.URL.Host + "\nx-amz-date:" + second + "\n\nhost;x-amz-date\n" + sum(form)
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+second+"\n"+strings.Join(scope, "/")+"\n"+sum(canonical))
	req.Header.Set("X-Amz-Date", second)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+id+"/"+strings.Join(scope, "/")+", SignedHeaders=host;x-amz-date, Signature="+hex.EncodeToString(signature))
}

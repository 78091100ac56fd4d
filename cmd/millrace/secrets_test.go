package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutput_ContainsNoSecrets provokes every kind of error from a store that echoes requests, and
// checks that the output contains no secret.
func TestOutput_ContainsNoSecrets(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDCANARY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_SESSION_TOKEN", "canary-session")
	var status int
	var code string
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		_, _ = io.Copy(io.Discard, r.Body) // discard written data
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s %s canary-secret</Message></Error>", code, r.Header.Get("Authorization"), r.URL)
	}))
	defer srv.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("data: {dataset: 's3://train/p?endpoint=http://u:canary-file@127.0.0.1:9'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(want int, args ...string) {
		t.Helper()
		o := millrace(t, nil, args...)
		if o.code != want {
			t.Errorf("%v: got exit code %d, want %d\n%s", args, o.code, want, o.stderr)
		}
		for _, secret := range []string{"canary", "AKID", "Signature="} {
			if strings.Contains(o.stdout+o.stderr, secret) {
				t.Errorf("%v: %q is in\n%s%s", args, secret, o.stdout, o.stderr)
			}
		}
	}
	for _, answer := range []struct {
		status int
		code   string
		exit   int
	}{
		{403, "SignatureDoesNotMatch", exitStore}, {403, "InvalidAccessKeyId", exitStore}, {404, "NoSuchBucket", exitNotFound}, {501, "NotImplemented", exitStore},
	} {
		status, code = answer.status, answer.code
		for _, c := range [][]string{{"index"}, {"verify"}, {"gc"}, {"pack", dir}} {
			look(answer.exit, append(c, "s3://train/p?endpoint="+srv.URL, "--json")...)
		}
		look(answer.exit, "serve", "--dataset", "p=s3://train/p?endpoint="+srv.URL, "--listen", "127.0.0.1:0", "--cache-size", "64MiB",
			"--log-level", "debug", "--log-format", "json")
	}
	if asked == 0 {
		t.Error("the store was never asked")
	}
	look(exitUsage, "serve", "--config", file)
	for _, address := range []string{
		"p=s3://k:canary-name@b/x", "s3://k:canary/slash@b/x", "p=s3://k:canary%zz@b/x", "s3://k:canary@b/x", "p=http://canary@b/x", "s3://k:1/canary@b/x",
		"p=s3://bk1/x?aws_secret_access_key=canary", "s3://bk1/x?endpoint=http://u:canary@h", "s3://bk1/x?endpoint=http:%2F%2Fu:canary%40h", "s3://bk1/x?canary",
		"s3://bk1/x?region=eu,index=s3://bk2/x?token=canary", "s3://bk1/x?pwd=canary", "s3://k:canary?x@bk1/x", "p=s3://bk1/x?sig=a?canary",
	} {
		look(exitUsage, "serve", "--dataset", address)
		look(exitUsage, "index", address)
	}
	for _, gateway := range []string{"ftp://u:canary@gw", "http://u:canary@gw?x=1", "http://u:canary/x@gw", "http://u:canary%zz@gw"} {
		look(exitUsage, "fetch", gateway)
	}
	status, code = 401, "Unauthorized"
	gateway := strings.Replace(srv.URL, "://", "://u:canary-gateway@", 1)
	look(exitUsage, "fetch", gateway)
	t.Setenv("MILLRACE_TOKEN", "canary-token")
	for _, command := range [][]string{{"fetch"}, {"explain"}, {"warm"}} {
		look(exitUsage, append(command, "http://192.0.2.1")...)
		look(exitFailure, append(command, srv.URL)...)
		look(exitFailure, append(command, srv.URL, "--json")...)
	}
}

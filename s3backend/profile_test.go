package s3backend

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// sharedFiles writes both AWS files, and sets keys in the environment that must not be used for
// profiles.
func sharedFiles(t *testing.T, config, credentials string) (configFile, credentialsFile string) {
	t.Helper()
	dir := t.TempDir()
	configFile, credentialsFile = filepath.Join(dir, "config"), filepath.Join(dir, "credentials")
	for file, text := range map[string]string{configFile: config, credentialsFile: credentials} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": configFile, "AWS_SHARED_CREDENTIALS_FILE": credentialsFile, "AWS_ACCESS_KEY_ID": "FROMENV", "AWS_SECRET_ACCESS_KEY": "canary", "AWS_SESSION_TOKEN": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ENDPOINT_URL_STS": "",
	} {
		t.Setenv(name, value)
	}
	return configFile, credentialsFile
}

// credentialService is a store, and also the service that issues the credentials of roles.
type credentialService struct {
	mu    sync.Mutex
	seen  []string // for each request: its key, and its role or session
	fails string   // code with which requests for roles are rejected
}

func (g *credentialService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	key = strings.TrimSpace(key + " " + r.Header.Get("X-Amz-Security-Token"))
	if r.Method != http.MethodPost {
		g.seen = append(g.seen, key)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	role := r.FormValue("RoleArn") + "," + r.FormValue("RoleSessionName") + "," + r.FormValue("ExternalId") + "," + r.FormValue("DurationSeconds")
	g.seen = append(g.seen, key+" "+role)
	if g.fails != "" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Code>%s</Code><Message>canary %s</Message></Error></ErrorResponse>`, g.fails, r.Header.Get("Authorization"))
		return
	}
	name := role[strings.LastIndex(role, "/")+1:]
	name, _, _ = strings.Cut(name, ",")
	fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>OF%s</AccessKeyId>`+
		`<SecretAccessKey>canary</SecretAccessKey><SessionToken>session-%s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
		strings.ToUpper(name), name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

// asked requests a missing object with a profile. It returns the credentials that the service
// received.
func (g *credentialService) asked(t *testing.T, name string) ([]string, error) {
	t.Helper()
	leaks.Check(t)
	srv := httptest.NewServer(g)
	defer srv.Close()
	g.seen = nil
	b, err := newBackend(Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, Profile: name}, quick())
	if err != nil {
		return nil, err
	}
	defer closeIdle(t, b)
	_, err = b.Stat(t.Context(), testKey)
	return g.seen, err
}

// TestProfilesGiveTheirOwnCredentials checks the signature for each kind of profile, even if the
// environment contains other keys.
func TestProfilesGiveTheirOwnCredentials(t *testing.T) {
	process := filepath.Join(t.TempDir(), "give")
	if err := os.WriteFile(process, []byte("#!/bin/sh\necho '{\"Version\": 1, \"AccessKeyId\": \"OFPROCESS'$1'\", \"SecretAccessKey\": \"s\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sharedFiles(t, `# comments
[default]
region = nowhere
[profile in-config]
aws_access_key_id = OFCONFIG # by whom
aws_secret_access_key = s
s3 =
  aws_access_key_id = NESTED
[profile "in both"]
aws_access_key_id=LOST
aws_secret_access_key=LOST
[profile process]
credential_process = `+process+` x
[profile role]
role_arn = arn:aws:iam::1:role/reader
source_profile = keys
external_id = ours
duration_seconds = 1800
[profile role-of-role]
role_arn = arn:aws:iam::1:role/deep
source_profile = role
role_session_name = millrace-of-a
[profile role-of-itself]
role_arn = arn:aws:iam::1:role/own
source_profile = role-of-itself
aws_access_key_id = OFITSELF
aws_secret_access_key = s
[profile role-of-environment]
role_arn = arn:aws:iam::1:role/env
credential_source = Environment
[sso-session in-config]
aws_access_key_id = NONE
`, `[keys]
AWS_ACCESS_KEY_ID = OFKEYS
aws_secret_access_key = "s"
aws_session_token = session
[in both]
aws_access_key_id = OFBOTH
aws_secret_access_key = s
`)
	var g credentialService
	const arn = "arn:aws:iam::1:role/"
	for name, want := range map[string]string{
		"keys": "OFKEYS session", "in-config": "OFCONFIG", "in both": "OFBOTH", "process": "OFPROCESSx",
		"role":                "OFKEYS session " + arn + "reader,millrace,ours,1800; OFREADER session-reader",
		"role-of-role":        "OFKEYS session " + arn + "reader,millrace,ours,1800; OFREADER session-reader " + arn + "deep,millrace-of-a,,; OFDEEP session-deep",
		"role-of-itself":      "OFITSELF " + arn + "own,millrace,,; OFOWN session-own",
		"role-of-environment": "FROMENV " + arn + "env,millrace,,; OFENV session-env",
	} {
		seen, err := g.asked(t, name)
		if got := strings.Join(seen, "; "); got != want || !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
	}
}

// TestFaultsOfProfilesAreNamed checks that each error contains the profile and its files but no
// secret, and is returned before any request.
func TestFaultsOfProfilesAreNamed(t *testing.T) {
	config, credentials := sharedFiles(t, `[bare]
aws_access_key_id = canary
aws_secret_access_key = canary
[profile empty]
region = eu
[profile to-nobody]
role_arn = arn:aws:iam::1:role/reader
source_profile = gone
[profile alone]
role_arn = arn:aws:iam::1:role/reader
web_identity_token_file = /t
[profile ring]
role_arn = arn:aws:iam::1:role/reader
source_profile = gnir
[profile gnir]
role_arn = arn:aws:iam::1:role/reader
source_profile = ring
[profile slow]
role_arn = arn:aws:iam::1:role/reader
credential_source = Environment
duration_seconds = canary
`, "[half]\naws_access_key_id = canary\n canary-line-without-a-sign\n")
	var g credentialService
	for name, want := range map[string]string{
		"none":      fmt.Sprintf("there is no profile %q: neither %s nor %s has it", "none", credentials, config),
		"bare":      "there is no profile", // the config file would require "profile bare"
		"half":      fmt.Sprintf("profile %q of %s and %s has only one of aws_access_key_id and aws_secret_access_key", "half", credentials, config),
		"empty":     "has neither credentials nor a source of credentials",
		"to-nobody": `there is no profile "gone"`,
		"alone":     "requires source_profile or credential_source",
		"ring":      "forms a cycle",
		"slow":      "duration_seconds is not a number",
	} {
		seen, err := g.asked(t, name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || len(seen) > 0 {
			t.Errorf("%s: got %v after %d requests, want %q", name, err, len(seen), want)
		}
	}
	if err := os.Chmod(credentials, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := g.asked(t, "none"); os.Getuid() != 0 && (err == nil || !strings.Contains(err.Error(), credentials)) {
		t.Errorf("a file that may not be read: got %v, want its name", err)
	}
}

// TestRolesThatAreRefused checks that the error for a role contains only the service's code, and
// that the service is queried once, not for each read.
func TestRolesThatAreRefused(t *testing.T) {
	sharedFiles(t, "[profile role]\nrole_arn = arn:aws:iam::1:role/reader\nsource_profile = keys\n[profile keys]\naws_access_key_id = OFKEYS\naws_secret_access_key = s\n", "")
	g := &credentialService{fails: "AccessDenied"}
	srv := httptest.NewServer(g)
	defer srv.Close()
	b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, Profile: "role"}, quick())
	for range 3 {
		_, err := b.Stat(t.Context(), testKey)
		if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), `profile "role"`) || !strings.HasSuffix(err.Error(), "refused the request: AccessDenied") {
			t.Errorf("got %v, want %v with the profile and the code", err, objstore.ErrDenied)
		}
	}
	if len(g.seen) != 1 {
		t.Errorf("the service was asked %d times, want once", len(g.seen))
	}
}

// TestKeysOfAProfileAreReplaced writes another key to the file. The file is read again when the
// store rejects the old key.
func TestKeysOfAProfileAreReplaced(t *testing.T) {
	text := func(key string) string { return "[team]\naws_access_key_id = " + key + "\naws_secret_access_key = s\n" }
	_, file := sharedFiles(t, "", text("one"))
	r := &rotation{valid: "one"}
	srv := httptest.NewServer(r)
	defer srv.Close()
	b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, Profile: "team"}, quick())
	if err := readAll(t, b, 4); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text("two")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, b, 4); err != nil {
		t.Errorf("while the old key is good: %v", err)
	}
	r.set("two", "")
	if err := readAll(t, b, 8); err != nil {
		t.Errorf("with the new key: %v", err)
	}
}

// TestWhereRolesAreGivenOut checks the service that issues role credentials: AWS has a separate
// one.
func TestWhereRolesAreGivenOut(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_STS", "")
	for endpoint, want := range map[string]string{
		"": "https://sts.eu-west-1.amazonaws.com", "https://minio:9000": "https://minio:9000",
		"https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com": "https://sts.eu-west-1.amazonaws.com",
	} {
		if got := (Config{Endpoint: endpoint}).roleService("eu-west-1"); got != want {
			t.Errorf("%s: got %s, want %s", endpoint, got, want)
		}
	}
	if got := (Config{}).roleService("cn-north-1"); got != "https://sts.cn-north-1.amazonaws.com.cn" {
		t.Errorf("got %s", got)
	}
	t.Setenv("AWS_ENDPOINT_URL_STS", "https://sts.example")
	if got := (Config{}).roleService("eu-west-1"); got != "https://sts.example" {
		t.Errorf("got %s", got)
	}
}

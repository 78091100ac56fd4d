package s3backend

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// TestReadSharedConfig_ReadsSettings checks that settings are read as by the AWS tools: each
// setting in the credentials file takes precedence over the config file.
func TestReadSharedConfig_ReadsSettings(t *testing.T) {
	leaks.Check(t)
	sharedFiles(t, `stray = before any section
# comment = 1
; comment = 2
[default]
Region = eu # where
output=a#b;c
s3 =
  region = nested
	output = nested
[profile  "spaced name" ] # x
role_arn = "arn = x"
[sso-session spaced name]
role_arn = of-no-profile
[services default]
region = of-no-profile
[plain]
region = of-no-profile
[profile both]
region = one ; kept
external_id = one
[profile both]
duration_seconds = 7
`, "\n[both]\nexternal_id=two\nempty\n\n[profile odd]\nx = y\n[ default ]\noutput = two\n")
	got, err := readSharedConfig()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{
		"default":     {"region": "eu", "output": "two", "s3": ""},
		"spaced name": {"role_arn": "arn = x"},
		"both":        {"region": "one", "external_id": "two", "duration_seconds": "7", "empty": ""},
		"profile odd": {"x": "y"},
	}
	if !maps.EqualFunc(got.profiles, want, maps.Equal) {
		t.Errorf("got %v, want %v", got.profiles, want)
	}
}

// TestReadSharedConfig_NamesFilesThatItCannotRead checks that the error names the file. A missing
// file is treated as an empty one.
func TestReadSharedConfig_NamesFilesThatItCannotRead(t *testing.T) {
	leaks.Check(t)
	dir, below := t.TempDir(), ""
	for _, variable := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		config, file := sharedFiles(t, "[profile team]\nregion = eu\n", "[team]\naws_access_key_id = canary\n")
		below = config + "/file"
		long := file + "-long"
		if err := os.WriteFile(long, []byte("[team]\nx = "+strings.Repeat("canary", 1<<16)), 0o600); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			dir: dir + ": invalid line", long: long + ": invalid line",
			below: "open " + below + ": not a directory", file + "-none": "",
		} {
			t.Setenv(variable, path)
			if _, err := readSharedConfig(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%s: got %v, want %s", variable, err, want)
			}
			_, err := New(Config{Bucket: "train", Profile: "other"})
			if want == "" {
				want = `there is no profile "other": neither`
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, new: got %v, want %s", variable, err, want)
			}
			_, err = (&profile{name: "team"}).Retrieve()
			if denied := errors.Is(err, objstore.ErrDenied); !denied || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s, retrieve: got %v, want %v", variable, err, objstore.ErrDenied)
			}
		}
	}
}

// TestProfile_RoleIsAssumedWhereItsRegionSays checks that the region of the bucket takes precedence
// over that of the profile.
func TestProfile_RoleIsAssumedWhereItsRegionSays(t *testing.T) {
	sharedFiles(t, "[profile here]\nrole_arn = a\nregion = eu-west-1\ncredential_source = Environment\nduration_seconds = 900\n"+
		"[profile nowhere]\nrole_arn = a\ncredential_source = Ec2InstanceMetadata\n[profile container]\nrole_arn = a\ncredential_source = EcsContainer\n", "")
	files, err := readSharedConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := new(http.Client)
	for _, c := range []struct {
		profile, bucket, region, endpoint string
		seconds                           int
		iam                               bool
	}{
		{"here", "cn-north-1", "cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn", 900, false},
		{"here", "", "eu-west-1", "https://sts.eu-west-1.amazonaws.com", 900, false},
		{"nowhere", "", "us-east-1", "https://sts.us-east-1.amazonaws.com", 0, true},
		{"container", "us-west-2", "us-west-2", "https://sts.us-west-2.amazonaws.com", 0, true},
	} {
		from, err := (&profile{cfg: Config{Region: c.bucket}, client: client}).source(files, c.profile, nil)
		r, ok := from.(*role)
		if err != nil || !ok {
			t.Fatalf("%s: got %T, %v", c.profile, from, err)
		}
		iam, ok := r.with.(*credentials.IAM)
		if ok != c.iam || ok && iam.Client != client || r.Client != client {
			t.Errorf("%s: assumed with %T, want the client of the profile everywhere", c.profile, r.with)
		}
		if r.Options.Location != c.region || r.STSEndpoint != c.endpoint || r.Options.DurationSeconds != c.seconds {
			t.Errorf("%s for %q: got %+v at %s, want %s at %s", c.profile, c.bucket, r.Options, r.STSEndpoint, c.region, c.endpoint)
		}
	}
}

// TestRole_SignsWithAllOfItsSource checks that a role request is also signed with the session token
// of its source, if it has one. Without the token, such a key is useless.
func TestRole_SignsWithAllOfItsSource(t *testing.T) {
	var g credentialService
	srv := httptest.NewServer(&g)
	defer srv.Close()
	fault := errors.New("fault")
	for _, c := range []struct {
		from  credentials.Value
		fails error
		want  error
	}{
		{credentials.Value{AccessKeyID: "k", SecretAccessKey: "s", SessionToken: "t"}, nil, nil},
		{credentials.Value{AccessKeyID: "k", SecretAccessKey: "s"}, nil, nil},
		{credentials.Value{}, nil, objstore.ErrDenied},
		{credentials.Value{}, fault, fault},
	} {
		g.seen = nil
		r := &role{with: fixed{c.from, c.fails}, STSAssumeRole: credentials.STSAssumeRole{
			Client: srv.Client(), STSEndpoint: srv.URL, Options: credentials.STSAssumeRoleOptions{RoleARN: "arn/reader", Location: "eu"},
		}}
		v, err := r.RetrieveWithCredContext(&credentials.CredContext{Client: srv.Client()})
		if !errors.Is(err, c.want) || (err == nil) != (v.AccessKeyID == "OFREADER") || (err == nil) != (len(g.seen) == 1) {
			t.Errorf("%+v: got %q, %v after %q, want %v", c.from, v.AccessKeyID, err, g.seen, c.want)
		}
		if o := r.Options; o.AccessKey != c.from.AccessKeyID || o.SecretKey != c.from.SecretAccessKey || o.SessionToken != c.from.SessionToken {
			t.Errorf("got %+v, want it signed with %+v", o, c.from)
		}
	}
}

// fixed returns the same credentials each time.
type fixed struct {
	value credentials.Value
	err   error
}

func (f fixed) Retrieve() (credentials.Value, error) { return f.value, f.err }
func (f fixed) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.value, f.err
}
func (f fixed) IsExpired() bool { return f.err != nil }

// TestProfile_IsExpiredWithItsSource checks that credentials expire with their source, or never if
// they have no expiration.
func TestProfile_IsExpiredWithItsSource(t *testing.T) {
	for _, c := range []struct {
		p    profile
		want bool
	}{
		{profile{}, true}, {profile{keeps: true}, true},
		{profile{now: fixed{}}, false}, {profile{now: fixed{err: io.EOF}}, true},
		{profile{now: fixed{}, keeps: true}, false}, {profile{now: fixed{err: io.EOF}, keeps: true}, false},
	} {
		if got := c.p.IsExpired(); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.p, got, c.want)
		}
	}
}

// TestProfile_FailsAsItsSourceDid checks that only network errors are retried, and that no failure
// reports that a request may have taken effect.
func TestProfile_FailsAsItsSourceDid(t *testing.T) {
	own := &failure{kind: objstore.ErrDenied, detail: "own", lost: true}
	refusal := credentials.ErrorResponse{}
	refusal.STSError.Code = "No\nSuch"
	const ahead = `credentials of profile "team": `
	for _, c := range []struct {
		err   error
		kind  error
		text  string
		retry bool
	}{
		{refusal, objstore.ErrDenied, ahead + "the service that issues them refused the request: No.Such", false},
		{&url.Error{Op: "Post", URL: "http://canary", Err: io.EOF}, objstore.ErrUnavailable, ahead + "the connection was closed", true},
		{errors.New("canary"), objstore.ErrDenied, ahead + "their source failed, or its response is invalid", false},
	} {
		f := (&profile{name: "team"}).failed(c.err)
		if f.kind != c.kind || f.detail != c.text || f.retry != c.retry || f.lost || f.fresh {
			t.Errorf("%v: got %+v, want %v: %s, retry: %t", c.err, f, c.kind, c.text, c.retry)
		}
	}
	if f := (&profile{}).failed(own); f != own {
		t.Errorf("got %v, want %v itself", f, own)
	}
	if got := denied(io.EOF); got.kind != objstore.ErrDenied || got.retry || slices.Contains(got.Unwrap(), io.EOF) {
		t.Errorf("got %+v, want no other attempt", got)
	}
}

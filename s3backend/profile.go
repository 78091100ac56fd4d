package s3backend

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-data/millrace/internal/objstore"
)

// profile provides the credentials of a profile in the shared AWS files. It reads the files each
// time, so it notices a replaced key. The lock of a credentials.Credentials guards it.
type profile struct {
	name   string
	cfg    Config
	client *http.Client
	now    credentials.Provider // last provider that returned credentials; nil: none yet
	keeps  bool                 // the credentials do not expire: they are valid until they are replaced
}

// Retrieve implements credentials.Provider.
func (p *profile) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (p *profile) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	files, err := readSharedConfig()
	if err != nil {
		return credentials.Value{}, denied(err)
	}
	from, err := p.source(files, p.name, nil)
	if err != nil {
		return credentials.Value{}, denied(err)
	}
	v, err := from.RetrieveWithCredContext(&credentials.CredContext{Client: p.client})
	switch {
	case err != nil:
		return credentials.Value{}, p.failed(err)
	case v.AccessKeyID == "":
		return credentials.Value{}, denied(fmt.Errorf("profile %q: its source of credentials returned none", p.name))
	}
	p.now, p.keeps = from, v.Expiration.IsZero()
	return v, nil
}

// IsExpired implements credentials.Provider.
func (p *profile) IsExpired() bool { return p.now == nil || !p.keeps && p.now.IsExpired() }

func denied(err error) *failure { return &failure{kind: objstore.ErrDenied, detail: err.Error()} }

// failed returns the error for a source without credentials. It omits the text of the source's
// error, which may repeat its input.
func (p *profile) failed(err error) *failure {
	ahead := fmt.Sprintf("credentials of profile %q: ", p.name)
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if answer, ok := errors.AsType[credentials.ErrorResponse](err); ok {
		return &failure{kind: objstore.ErrDenied, detail: ahead + "the service that issues them refused the request: " + clip(answer.STSError.Code)}
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		f := classifyNetwork(err)
		f.detail, f.lost = ahead+f.detail, false
		return f
	}
	return &failure{kind: objstore.ErrDenied, detail: ahead + "their source failed, or its response is invalid"}
}

// source returns the provider of a profile's credentials. These are its keys, a role that is
// assumed with the credentials of another source, or a source that minio-go supports: SSO or a
// process. above lists the profiles that assume a role with the credentials of this one.
func (p *profile) source(files sharedConfig, name string, above []string) (credentials.Provider, error) {
	set, err := files.profile(name)
	if err != nil {
		return nil, err
	}
	key, secret := set["aws_access_key_id"], set["aws_secret_access_key"]
	switch {
	case set["role_arn"] != "" && !slices.Contains(above, name):
		return p.role(files, name, set, append(slices.Clip(above), name))
	case (key == "") != (secret == ""):
		return nil, fmt.Errorf("profile %q of %s has only one of aws_access_key_id and aws_secret_access_key", name, files)
	case key != "":
		return &credentials.Static{Value: credentials.Value{
			AccessKeyID: key, SecretAccessKey: secret, SessionToken: set["aws_session_token"], SignerType: credentials.SignatureV4,
		}}, nil
	case set["sso_role_name"] != "" || set["credential_process"] != "":
		return &credentials.FileAWSCredentials{Profile: name}, nil
	}
	return nil, fmt.Errorf("profile %q of %s has neither credentials nor a source of credentials", name, files)
}

// role returns the provider for the role in a profile.
func (p *profile) role(files sharedConfig, name string, set map[string]string, above []string) (credentials.Provider, error) {
	var with credentials.Provider
	switch other := set["source_profile"]; {
	case other != "" && other != name && slices.Contains(above, other):
		return nil, fmt.Errorf("profile %q of %s: its source_profile %q forms a cycle: one profile of the cycle must have credentials of its own", name, files, other)
	case other != "":
		var err error
		if with, err = p.source(files, other, above); err != nil {
			return nil, err
		}
	case set["credential_source"] == "Environment":
		with = &credentials.EnvAWS{}
	case set["credential_source"] == "Ec2InstanceMetadata", set["credential_source"] == "EcsContainer":
		with = &credentials.IAM{Client: p.client}
	default:
		return nil, fmt.Errorf("profile %q of %s has a role_arn, which requires source_profile or credential_source: Environment, Ec2InstanceMetadata or EcsContainer", name, files)
	}
	seconds := 0
	if text := set["duration_seconds"]; text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil || seconds <= 0 {
			return nil, fmt.Errorf("profile %q of %s: duration_seconds is not a number of seconds", name, files)
		}
	}
	region := cmp.Or(p.cfg.Region, set["region"], "us-east-1")
	return &role{with: with, STSAssumeRole: credentials.STSAssumeRole{
		Client: p.client, STSEndpoint: p.cfg.roleService(region),
		Options: credentials.STSAssumeRoleOptions{
			RoleARN: set["role_arn"], RoleSessionName: cmp.Or(set["role_session_name"], "millrace"), ExternalID: set["external_id"],
			DurationSeconds: seconds, Location: region,
		},
	}}, nil
}

// roleService returns the URL of the service that issues role credentials: STS for AWS, and
// otherwise the store itself.
func (c Config) roleService(region string) string {
	u, err := url.Parse(c.Endpoint)
	if host := u.Hostname(); err == nil && host != "" && !strings.HasSuffix(host, ".amazonaws.com") && !strings.HasSuffix(host, ".amazonaws.com.cn") {
		return c.Endpoint
	}
	aws := "https://sts." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		aws += ".cn"
	}
	return cmp.Or(os.Getenv("AWS_ENDPOINT_URL_STS"), aws)
}

// role assumes a role with the credentials of another source.
type role struct {
	with credentials.Provider
	credentials.STSAssumeRole
}

// RetrieveWithCredContext implements credentials.Provider.
func (r *role) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	v, err := r.with.RetrieveWithCredContext(cc)
	if err != nil {
		return credentials.Value{}, err
	}
	if v.AccessKeyID == "" {
		return credentials.Value{}, denied(fmt.Errorf("role %s: the source for assuming the role returned no credentials", clip(r.Options.RoleARN)))
	}
	r.Options.AccessKey, r.Options.SecretKey, r.Options.SessionToken = v.AccessKeyID, v.SecretAccessKey, v.SessionToken
	return r.STSAssumeRole.RetrieveWithCredContext(cc)
}

// sharedConfig contains the settings of the two shared AWS files, by profile and lower-case name.
type sharedConfig struct {
	config, credentials string // their paths
	profiles            map[string]map[string]string
}

// String returns the names of the files.
func (s sharedConfig) String() string { return s.credentials + " and " + s.config }

func (s sharedConfig) profile(name string) (map[string]string, error) {
	if set, ok := s.profiles[name]; ok {
		return set, nil
	}
	return nil, fmt.Errorf("there is no profile %q: neither %s nor %s has it", name, s.credentials, s.config)
}

// readSharedConfig reads both files. Settings of the credentials file take precedence.
func readSharedConfig() (sharedConfig, error) {
	home, _ := os.UserHomeDir() // without a home directory both files must be set in the environment
	s := sharedConfig{
		config:      cmp.Or(os.Getenv("AWS_CONFIG_FILE"), filepath.Join(home, ".aws", "config")),
		credentials: cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials")),
		profiles:    map[string]map[string]string{},
	}
	ofConfig := func(section string) string {
		if name, ok := strings.CutPrefix(section, "profile "); ok {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
		if section == "default" {
			return section
		}
		return "" // a section such as sso-session or services is not a profile
	}
	if err := s.read(s.config, ofConfig); err != nil {
		return s, err
	}
	return s, s.read(s.credentials, func(section string) string { return section })
}

// read adds the profiles in one file. The file may be missing.
func (s sharedConfig) read(path string, profileOf func(section string) string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var set map[string]string // settings of the current profile; nil: none
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text := lines.Text()
		line := strings.TrimSpace(text)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section, _, _ := strings.Cut(line[1:], "]")
			name := profileOf(strings.TrimSpace(section))
			if set = nil; name == "" {
				continue
			}
			if set = s.profiles[name]; set == nil {
				set = map[string]string{}
				s.profiles[name] = set
			}
		case set != nil && text[0] != ' ' && text[0] != '\t': // indented lines belong to the setting above them
			name, value, _ := strings.Cut(line, "=")
			value, _, _ = strings.Cut(value, " #")
			value, _, _ = strings.Cut(value, " ;")
			set[strings.ToLower(strings.TrimSpace(name))] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if lines.Err() != nil {
		return fmt.Errorf("%s: invalid line", path)
	}
	return nil
}

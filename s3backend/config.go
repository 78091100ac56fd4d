package s3backend

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Config configures a Backend, with the standard AWS names. The zero value of a field means its
// default. Credentials are never part of it. They come from the environment (AWS_ACCESS_KEY_ID and
// so on), the shared credentials file (AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE), a web identity or
// the instance's metadata, in this order; if Profile is set, only from that profile.
type Config struct {
	Bucket    string
	Endpoint  string // URL; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS itself
	Region    string // empty: AWS_REGION, AWS_DEFAULT_REGION, then us-east-1; for AWS then the actual region of the bucket
	Profile   string // profile in the shared AWS files, whose credentials are used exclusively; empty: all sources listed above
	PathStyle bool   // the bucket is in the path; unset: in the host name for AWS and other known hosts, otherwise in the path
	CAFile    string // PEM file of certificate authorities trusted in addition to the system's; empty: AWS_CA_BUNDLE
	MaxConns  int    // maximum connections; empty: 256
	PartSize  int64  // bytes of one part of a multipart Put; empty: 16 MiB
	Bandwidth int64  // maximum bytes per second of all reads together; empty: no limit

	Traceparent bool // requests without a body carry the trace context of their span
}

// retryPolicy holds the timeouts, attempts and backoff of requests. Tests shorten them.
type retryPolicy struct {
	dial, tls  time.Duration
	header     time.Duration // from the request to the response header
	stall      time.Duration // without receiving a byte of the response body
	upload     time.Duration // without sending a byte of the request body
	write      time.Duration // from the end of the request body to the response header
	rateWindow time.Duration // time spent reading, after which minRate must be reached
	minRate    int64         // bytes per second
	attempts   int           // maximum number of consecutive attempts without progress
	progress   int64         // number of bytes after which an attempt counts as progress
	base, top  time.Duration // bounds of the pause before a retry
	refresh    time.Duration // minimum time between two forced refreshes of the credentials
}

func defaultRetryPolicy() retryPolicy {
	return retryPolicy{
		dial:       3 * time.Second,
		tls:        5 * time.Second,
		header:     5 * time.Second,
		stall:      5 * time.Second,
		upload:     10 * time.Second,
		write:      60 * time.Second,
		rateWindow: 10 * time.Second,
		minRate:    64 << 10, // many streams may share a slow link, so only a nearly dead stream is replaced
		attempts:   5,
		progress:   64 << 10,
		base:       50 * time.Millisecond,
		top:        2 * time.Second,
		refresh:    30 * time.Second,
	}
}

// minPart is the smallest part size that S3 accepts, and maxParts the maximum number of parts.
const (
	minPart  = 5 << 20
	maxParts = 10_000
)

// located sets empty fields for endpoint and region from the environment.
func (c Config) located() Config {
	c.Endpoint = cmp.Or(c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	c.Region = cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	return c
}

// Place identifies the service of the bucket by its endpoint, or AWS by "" and a region, since AWS
// has separate services for some regions. Two services may have buckets with the same name.
func (c Config) Place() (endpoint, region string) {
	c = c.located()
	if c.Endpoint == "" {
		return "", c.Region
	}
	return strings.TrimSuffix(c.Endpoint, "/"), ""
}

// complete sets empty fields from the environment or to defaults, and returns an error for invalid
// values.
func (c Config) complete() (Config, error) {
	c = c.located()
	c.CAFile = cmp.Or(c.CAFile, os.Getenv("AWS_CA_BUNDLE"))
	c.MaxConns = cmp.Or(c.MaxConns, 256)
	c.PartSize = cmp.Or(c.PartSize, 16<<20)
	switch {
	case c.Bucket == "":
		return c, errors.New("no bucket")
	case s3utils.IsS3ExpressBucket(c.Bucket):
		return c, fmt.Errorf("%s is a directory bucket, which is not supported because it does not list keys in order", c.Bucket)
	case c.MaxConns < 0:
		return c, fmt.Errorf("%d connections: must not be negative", c.MaxConns)
	case c.PartSize < minPart:
		return c, fmt.Errorf("part size of %d bytes: must be at least %d", c.PartSize, minPart)
	case c.Bandwidth < 0:
		return c, fmt.Errorf("bandwidth of %d bytes per second: must not be negative", c.Bandwidth)
	}
	return c, c.checkProfile()
}

// endpoint returns the host and the scheme of the endpoint URL for minio-go.
func (c Config) endpoint() (host string, secure bool, err error) {
	u, err := url.Parse(cmp.Or(c.Endpoint, "https://s3.amazonaws.com"))
	switch {
	case err != nil: // the error would repeat the URL, which may contain a password
		err = c.badEndpoint()
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		err = c.badEndpoint()
	case u.User != nil:
		err = errors.New("endpoint contains a user name: remove it, and set credentials in the environment")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		err = errors.New("endpoint contains more than scheme, host and port: remove the rest")
	default:
		host, secure = u.Host, u.Scheme == "https"
	}
	return host, secure, err
}

// badEndpoint returns an error that names the setting with the invalid URL. The error contains an
// example, and the value unless it may contain a password.
func (c Config) badEndpoint() error {
	setting := "endpoint="
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if os.Getenv(name) == c.Endpoint {
			setting = name + "="
		}
	}
	if !strings.Contains(c.Endpoint, "@") {
		setting += c.Endpoint
	}
	return fmt.Errorf("%s is not an http or https URL: write it as http://HOST:PORT", setting)
}

// credentials uses the same sources as the AWS tools. It queries the instance's metadata service
// only if one is likely to exist; otherwise every anonymous request would wait for it. The query
// has a time limit, since in minio-go every request waits for it, even if the request's context
// ends.
func (c Config) credentials(transport http.RoundTripper, limit time.Duration) *credentials.Credentials {
	client := &http.Client{Transport: transport, Timeout: limit}
	if c.Profile != "" {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return credentials.New(&stickyCredentials{source: &profile{name: c.Profile, cfg: c, client: client}})
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	identity := cmp.Or(os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")) != ""
	metadata := c.Endpoint == "" && !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true")
	if identity || metadata {
		providers = append(providers, &credentials.IAM{Client: client})
	}
	return credentials.New(&stickyCredentials{source: &credentials.Chain{Providers: providers}})
}

// checkProfile returns an error if the shared files show that the profile cannot be used.
func (c Config) checkProfile() error {
	if c.Profile == "" {
		return nil
	}
	files, err := readSharedConfig()
	if err == nil {
		_, err = (&profile{name: c.Profile, cfg: c}).source(files, c.Profile, nil)
	}
	return err
}

// tlsConfig returns a configuration that trusts the system's certificate authorities and those in
// CAFile.
func (c Config) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s contains no certificate", c.CAFile)
	}
	t.RootCAs = pool
	return t, nil
}

package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Environment variables that apply if Config sets no token.
const (
	tokenVariable     = "MILLRACE_TOKEN"
	tokenFileVariable = "MILLRACE_TOKEN_FILE"
	plainVariable     = "MILLRACE_INSECURE_PLAIN_HTTP"
)

// maxToken is the maximum size of a token in bytes: HTTP servers refuse longer headers.
const maxToken = 64 << 10

// tokenForm matches the tokens that `millrace token` prints.
var tokenForm = regexp.MustCompile(`mr_[A-Za-z0-9_-]{43}`)

// tokenSource provides the token of requests. A nil source has none.
type tokenSource struct {
	read func() (string, error) // read returns the current token; its errors name the source, never the token

	mu   sync.Mutex
	text string // guarded by mu
}

// tokenSetting is one way to set the token.
type tokenSetting struct {
	name, value string
	given       bool
}

func variable(name string) tokenSetting {
	value, given := os.LookupEnv(name)
	return tokenSetting{name, value, given}
}

// newTokenSource reads the token for the first time. Config takes precedence over the environment.
// It returns nil if neither sets a token.
func newTokenSource(cfg Config) (*tokenSource, error) {
	token, file := tokenSetting{"Token", cfg.Token, cfg.Token != ""}, tokenSetting{"TokenFile", cfg.TokenFile, cfg.TokenFile != ""}
	if !token.given && !file.given {
		token, file = variable(tokenVariable), variable(tokenFileVariable)
	}
	t := &tokenSource{}
	switch {
	case token.given && file.given:
		return nil, fmt.Errorf("%s and %s are both set: unset one of them", token.name, file.name)
	case token.given:
		t.read = func() (string, error) { return checkToken(token.name, token.value) }
	case file.given && file.value == "":
		return nil, fmt.Errorf("%s is set but empty: give the path of a file", file.name)
	case file.given:
		t.read = func() (string, error) { return readToken(file.value) }
	default:
		return nil, nil
	}
	var err error
	t.text, err = t.read()
	return t, err
}

// checkToken validates a token and removes the newline at its end.
func checkToken(place, text string) (string, error) {
	text = strings.TrimRight(text, "\r\n")
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case text == "":
		return "", fmt.Errorf("%s: the token is empty", place)
	case len(text) > maxToken:
		return "", fmt.Errorf("%s: a token must have at most %d bytes", place, maxToken)
	case strings.ContainsFunc(text, invisible):
		return "", fmt.Errorf("%s: a token must be one line of visible ASCII characters, without spaces", place)
	}
	return text, nil
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	return checkToken("token file "+path, string(text))
}

// current returns the current token, or "" if there is none.
func (t *tokenSource) current() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// renew rereads the token after a gateway refused one. It returns "" if the token has not changed.
func (t *tokenSource) renew(refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := t.read()
	if err != nil {
		return "", err
	}
	t.text = text
	if text == refused {
		return "", nil
	}
	return text, nil
}

// authorize sends a request with the token. If the gateway refuses the token and the token has
// changed since, authorize retries once.
func (c *Client) authorize(req *http.Request, gw *gateway) (*http.Response, error) {
	token := c.token.current()
	if token == "" {
		return c.cfg.HTTP.Do(req)
	}
	resp, err := c.cfg.HTTP.Do(withToken(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	fresh, err := c.token.renew(token)
	if fresh == "" && err == nil {
		return resp, nil
	}
	e := readError(gw.name(), resp) // reads the body to its end, so that the connection can be reused
	resp.Body.Close()
	if err != nil {
		e.Detail = "the token is refused, and cannot be read again: " + err.Error()
		return nil, e
	}
	return c.cfg.HTTP.Do(withToken(req, fresh))
}

// withToken returns a copy of an unsent request, with its own body.
func withToken(req *http.Request, token string) *http.Request {
	sent := req.Clone(req.Context())
	if req.GetBody != nil {
		sent.Body, _ = req.GetBody() // a bytes.Reader never returns an error
	}
	sent.Header.Set("Authorization", "Bearer "+token)
	return sent
}

// plainAllowed reports whether tokens may be sent to other machines without TLS.
func plainAllowed(cfg Config) (bool, error) {
	text, given := os.LookupEnv(plainVariable)
	if cfg.InsecurePlainHTTP || !given {
		return cfg.InsecurePlainHTTP, nil
	}
	allowed, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s %q: want true or false", plainVariable, text)
	}
	return allowed, nil
}

// refusePlain returns an error if a gateway would receive the token over a network without TLS.
func refusePlain(base *url.URL) error {
	host := base.Hostname()
	address, err := netip.ParseAddr(host)
	if base.Scheme != "http" || host == "localhost" || err == nil && address.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("gateway %s: a token is not sent over a network without TLS: give an https:// address, or set %s=true (Config.InsecurePlainHTTP) "+
		"where the network encrypts by itself", base, plainVariable)
}

// errSecretInAddress does not contain the address.
var errSecretInAddress = errors.New("gateway: want http://HOST:PORT or HOST:PORT, without a user, password or token, which would appear in logs: " +
	"give a token by " + tokenFileVariable + " or " + tokenVariable)

//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// The test uses HTTP and kubectl for the API server. client-go would add a hundred modules to
// decode a few fields.

// Content types of request bodies for the API server.
const (
	asJSON  = "application/json"
	asMerge = "application/strategic-merge-patch+json"
)

// statusError is an unsuccessful response of the API server.
type statusError struct {
	Code int
	Text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Text) }

// missing reports whether the API server responded that an object does not exist, or that it has
// been replaced.
func missing(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.Code == http.StatusNotFound || e.Code == http.StatusConflict)
}

func (c *cluster) request(ctx context.Context, method, path, kind string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.asker.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, string(text)})
	}
	return resp, nil
}

// call sends a request to the API server, and decodes the response into out unless out is nil.
func (c *cluster) call(ctx context.Context, method, path, kind string, body, out any) error {
	resp, err := c.request(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// event is a change of an object: ADDED, MODIFIED or DELETED.
type event[T any] struct {
	Type   string
	Object T
}

// watch calls each for every object at path and for every change of one, until ctx ends.
func watch[T any](ctx context.Context, c *cluster, path string, each func(event[T])) {
	for ctx.Err() == nil {
		resp, err := c.request(ctx, http.MethodGet, path+"?watch=true", "", nil)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		answers := json.NewDecoder(resp.Body)
		for {
			var e event[T]
			if err := answers.Decode(&e); err != nil || e.Type == "ERROR" {
				break
			}
			each(e)
		}
		resp.Body.Close()
	}
}

// kubectl runs a command, which must succeed, and returns its output. input is the command's
// standard input.
func (c *cluster) kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	out, err := c.tool(t, "kubectl", input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tool runs kubectl or helm against the cluster.
func (c *cluster) tool(t testing.TB, name, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Installed(t, name), args...)
	cmd.Env = []string{"KUBECONFIG=" + c.config, "HOME=" + c.dir}
	cmd.Stdin = bytes.NewReader([]byte(input))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := c.control.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", name, args, err, stderr.String())
	}
	return stdout.String(), nil
}

// until polls probe until it returns nil, for at most a minute.
func until(t testing.TB, what string, probe func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := probe(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after a minute: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

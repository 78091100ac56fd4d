// Package reach checks whether gateways respond at all. A command calls it before it waits as
// patiently as a training job does.
package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// ErrNoAnswer reports that a gateway does not respond at all.
var ErrNoAnswer = errors.New("no answer")

// Cure returns advice for a gateway that does not respond.
func Cure(err error) string {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "write http:// in place of https://"
	}
	return "start it, or correct the address"
}

// Time is how long Check waits for a first response.
const Time = 5 * time.Second

// With calls body with a client of gateways, unless none of them responds.
func With(ctx context.Context, cfg client.Config, body func(*client.Client) error) error {
	if err := Check(ctx, cfg); err != nil {
		return fmt.Errorf("%s: %w", location.HideSecrets(strings.Join(cfg.Gateways, ", ")), err)
	}
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	return body(c)
}

// Check returns an error if no gateway of a client responds: at once if all refuse the connection,
// otherwise after Time.
func Check(ctx context.Context, cfg client.Config) error {
	cfg.Deadline, cfg.AttemptTimeout, cfg.FailRefused = Time, Time, true
	start := time.Now()
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	var answer json.RawMessage
	err = c.JSON(ctx, "/v1/datasets", nil, &answer)
	var said *client.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &said) {
		return err
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network.Err // the caller adds the name of the gateway
	}
	if took := time.Since(start).Round(time.Second); took > 0 {
		return fmt.Errorf("%w in %s: %w", ErrNoAnswer, took, err)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

package gateway

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
)

//go:generate go test -count=1 -run TestOpenAPI_FollowsFromRoutesAndParameters -update .

//go:embed openapi.json
var openAPIJSON []byte

// openAPI returns the OpenAPI document as JSON, with the program's version.
func openAPI(version string) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openAPIJSON, &doc); err != nil {
		return nil, fmt.Errorf("parse openapi.json: %w", err)
	}
	if info, ok := doc["info"].(map[string]any); ok && version != "" {
		info["version"] = version
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode openapi.json: %w", err)
	}
	return out, nil
}

func (g *Gateway) getSpec(x *exchange) error {
	spec, err := g.spec()
	if err != nil {
		return err
	}
	sendBytes(x, http.StatusOK, "application/json", spec)
	return nil
}

// getHealth reports that the process is alive, even while it drains.
func (g *Gateway) getHealth(x *exchange) error {
	sendBytes(x, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// notReady returns the reason why new requests should use another gateway, or nil. It advises load
// balancers only: a gateway that waits for its cluster serves every request.
func (g *Gateway) notReady() *problem {
	p := &problem{RetryAfter: retryNotReady}
	if begun, _ := g.draining(); begun {
		p.Code, p.Detail = codeDraining, "this gateway is shutting down"
		return p
	}
	if g.cfg.Awaits == nil {
		return nil
	}
	awaits := g.cfg.Awaits()
	if awaits == "" {
		return nil
	}
	p.Code, p.Detail = codeStarting, "this gateway has just started and waits for its cluster: "+awaits+"; requests are answered meanwhile"
	return p
}

// getReady reports whether load balancers should send requests to this gateway.
func (g *Gateway) getReady(x *exchange) error {
	if p := g.notReady(); p != nil {
		return p
	}
	sendBytes(x, http.StatusOK, "text/plain; charset=utf-8", []byte("ready\n"))
	return nil
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// nginxConfig serves the files of a directory with the fastest settings of Debian's nginx: two
// workers and sendfile.
const nginxConfig = `%s
worker_processes 2;
daemon off;
pid %[2]s/pid;
error_log stderr;
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache max=65536;
    client_body_temp_path %[2]s/tmp;
    proxy_temp_path %[2]s/tmp;
    fastcgi_temp_path %[2]s/tmp;
    uwsgi_temp_path %[2]s/tmp;
    scgi_temp_path %[2]s/tmp;
    server {
        listen %[3]s;
        root %[2]s/files;
    }
}
`

// startNginx starts nginx on files that contain the batches of one epoch, exactly as the gateway
// sends them.
func (s *suite) startNginx(ctx context.Context, d set, gw *process) (*process, error) {
	dir := filepath.Join(s.dir, "nginx-"+d.name)
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	for i := range d.batches() {
		if err := save(ctx, base(gw.addr)+d.path(0, i), filepath.Join(files, fmt.Sprint(i))); err != nil {
			return nil, err
		}
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // the workers read files that only this user may read
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, user, dir, addr), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, addr, "/0", nil, s.nginx, "-p", dir, "-c", config)
	if err != nil {
		return nil, fmt.Errorf("%w (run tools/deps.sh proxies)", err)
	}
	return p, nil
}

// fromNginx returns the path of the i-th batch; after the last file it begins again.
func (d set) fromNginx(i int64) string { return fmt.Sprintf("/%d", i%d.batches()) }

// save writes a response into a file.
func save(ctx context.Context, url, file string) error {
	resp, err := ask(ctx, http.MethodGet, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read to the end
	var body bytes.Buffer
	if _, err := io.Copy(&body, resp.Body); err != nil {
		return err
	}
	return os.WriteFile(file, body.Bytes(), 0o600)
}

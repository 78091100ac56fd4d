# Varnish in front of a gateway: it keeps in memory what a URL pins for ever, and passes all else through.
# Start it with: varnishd -a 127.0.0.1:8000 -f /etc/millrace/varnish.vcl -s malloc,16g -p http_req_hdr_len=20k -p http_req_size=48k
# (a URL may have 16 KiB, all headers 36 KiB). Varnish 7.1 takes what it passes as fast as the gateway gives it, and holds that in
# memory for slow clients, beside the 16 GiB; later releases bound it with "set beresp.transit_buffer". It speaks no TLS.
vcl 4.1;

backend gateway {
  .host = "127.0.0.1";
  .port = "8080";
  # A gateway's first byte may take a minute.
  .first_byte_timeout = 90s;
  .between_bytes_timeout = 60s;
}

sub vcl_recv {
  # Who asks: Varnish has added that to X-Forwarded-For. A gateway with --trusted-proxies believes Forwarded too, so what a client
  # says of itself there goes.
  unset req.http.Forwarded;
  # Answers to URLs with a generation never change. Of others a range or a condition is the gateway's to answer.
  if (req.url !~ "[?&]generation=") {
    return (pass);
  }
  # Requests with a token are passed too: Varnish's own rules, which follow here, say so.
}

sub vcl_backend_response {
  # Neither private nor no-store is kept: Varnish's own rules, which follow here, say so. What is kept is thrown away when its
  # time is over, rather than shown once more.
  set beresp.grace = 0s;
  set beresp.keep = 0s;
}

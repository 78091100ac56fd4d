# MinIO from its pinned source: the project publishes no binaries any more. AGPL, so it is
# an image of its own, for tests and local use.
FROM docker.io/library/golang:1.26-alpine AS build
RUN CGO_ENABLED=0 GOBIN=/out go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c

FROM docker.io/library/alpine:3.22
RUN adduser -D -u 10001 minio && mkdir -p /data/train && chown -R minio /data
COPY --from=build /out/minio /usr/local/bin/minio
USER minio
VOLUME /data
EXPOSE 9000
# A directory that is there before the start is a bucket.
ENTRYPOINT ["/bin/sh", "-c", "mkdir -p /data/train && exec minio server --quiet --address :9000 /data"]

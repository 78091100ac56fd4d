{{/* The settings of `millrace serve` that follow from the values. */}}
{{- define "millrace.settings" -}}
data:
  datasets: /etc/millrace/datasets.yaml
  follow: 30s
  {{- if .Values.disk.size }}
  index-dir: /var/lib/millrace/indexes
  {{- end }}
ports:
  listen: ":8080{{ if .Values.socket.hostPath }},unix:/run/millrace/socket{{ end }}"
  {{- if .Values.socket.hostPath }}
  socket-mode: "0666" # pods have users of their own; the access file says who may read
  {{- end }}
  admin-listen: ":9090"
  health-listen: ":8081"
  lame-duck: {{ .Values.lameDuckSeconds }}s
  drain-timeout: {{ .Values.drainSeconds }}s
access:
  {{- if .Values.access }}
  access: /etc/millrace/access.yaml
  {{- else }}
  insecure-no-auth: true
  insecure-admin: true
  {{- end }}
  {{- if include "millrace.tlsSecret" . }}
  tls-cert: /etc/millrace-tls/tls.crt
  tls-key: /etc/millrace-tls/tls.key
  {{- end }}
memory:
  cache-size: {{ .Values.cacheSize }}B
{{- with .Values.disk.size }}
disk:
  disk-cache: /var/lib/millrace/chunks
  # Quotas on disk come first. The rest is for the file system itself and for copies of indexes.
  {{- $quotas := include "millrace.quotas" (dict "settings" $.Values.settings "disk" true) | int64 }}
  {{- $size := sub (div (mul 85 (include "millrace.mebibytes" .)) 100) $quotas }}
  {{- if lt $size 1 }}{{ fail (printf "disk.size %s: 85 %% of it must exceed the disk quotas, %dMi" . $quotas) }}{{ end }}
  disk-cache-size: {{ $size }}MiB
{{- end }}
{{- if .Values.peers.enabled }}
cluster:
  cluster: {{ .Release.Name }}
  join: dns:{{ include "millrace.headless" . }}.{{ .Release.Namespace }}.svc:7946
  peer-listen: ":7946"
  peer-cert: /etc/millrace-peer/tls.crt
  peer-key: /etc/millrace-peer/tls.key
  peer-ca: /etc/millrace-peer/ca.crt
  peer-allow: [{{ include "millrace.host" . }}]
  peer-shared-cert: true
{{- end }}
log:
  log-format: json
{{- end }}

{{/* The file millrace.yaml: what is set above, and before it what the values say under settings. */}}
{{- define "millrace.yaml" -}}
{{ mergeOverwrite (include "millrace.settings" . | fromYaml) .Values.settings | toYaml }}
{{- end }}

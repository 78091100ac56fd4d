{{/* The labels by which Services, policies and the workload find the pods of this release. */}}
{{- define "millrace.selector" -}}
app.kubernetes.io/name: millrace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of every object. */}}
{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The headless Service, which names each gateway. */}}
{{- define "millrace.headless" -}}
{{ .Release.Name }}{{ if eq .Values.mode "daemonset" }}-nodes{{ end }}
{{- end }}

{{/* The name that the certificates of all gateways have. */}}
{{- define "millrace.host" -}}
{{ .Release.Name }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The Secret with the certificate for https, or nothing. */}}
{{- define "millrace.tlsSecret" -}}
{{ .Values.tls.secret | default (.Values.tls.issuer | empty | ternary "" (print .Release.Name "-tls")) }}
{{- end }}

{{/* The Secret with the certificate for other gateways. */}}
{{- define "millrace.peerSecret" -}}
{{ .Values.peers.secret | default (print .Release.Name "-peer") }}
{{- end }}

{{/* A quantity such as 4Gi as a number of mebibytes. */}}
{{- define "millrace.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- mul $number (get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (regexFind "[A-Za-z]+$" .)) -}}
{{- end }}

{{/* The sum of all quotas in mebibytes, rounded up: .disk of disk, otherwise of memory. A quota is DATASET=SIZE[,disk=SIZE]. */}}
{{- define "millrace.quotas" -}}
{{- $units := dict "" 1 "b" 1 "kb" 1000 "mb" 1000000 "gb" 1000000000 "tb" 1000000000000 "kib" 1024 "mib" 1048576 "gib" 1073741824 "tib" 1099511627776 -}}
{{- $sum := 0 -}}
{{- range dig "memory" "quota" list .settings | join "," | splitList "," }}
{{- $size := splitList "=" . | last | lower | nospace -}}
{{- if and $size (hasPrefix "disk=" . | eq $.disk) }}
{{- $unit := regexFind "[a-z]*$" $size -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "settings.memory.quota %s: must be a size such as 300GiB" .) }}{{ end -}}
{{- $sum = divf (mulf (regexFind "^[0-9.]+" $size | float64) (get $units $unit)) 1048576 | ceil | int64 | add $sum -}}
{{- end }}
{{- end }}
{{- $sum -}}
{{- end }}

{{/* What the container asks for. The cache and the quotas are the largest part of the memory: an eighth of them and 512 MiB come on
top for connections, Go's heap and the program. With TLS a connection takes 128 KiB, and there is one for each 64 KiB of the cache, but at most 8192:
twice the cache, or 1 GiB. There is no limit of processor time: a gateway that is throttled answers late. */}}
{{- define "millrace.resources" -}}
{{- $cache := include "millrace.mebibytes" .Values.cacheSize | int64 -}}
{{- $connections := include "millrace.tlsSecret" . | empty | ternary 0 (min 1024 (mul 2 $cache)) -}}
{{- $held := include "millrace.quotas" (dict "settings" .Values.settings "disk" false) | int64 | add $cache -}}
{{- $memory := printf "%dMi" (add $held (div $held 8) 512 $connections) -}}
{{- mergeOverwrite (dict "requests" (dict "cpu" "1" "memory" $memory) "limits" (dict "memory" $memory)) .Values.resources | toYaml -}}
{{- end }}

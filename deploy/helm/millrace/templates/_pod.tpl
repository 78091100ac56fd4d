{{- define "millrace.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
# After SIGTERM a gateway is not ready at once, serves on while that gets about, and then ends its open requests.
# It does so by itself, so there is no preStop hook. Five seconds are for the ends of loads and peers.
terminationGracePeriodSeconds: {{ add .Values.lameDuckSeconds .Values.drainSeconds 5 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: millrace
    image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [serve, --config, /etc/millrace/millrace.yaml]
    ports:
      - {name: http, containerPort: 8080}
      - {name: admin, containerPort: 9090}
      - {name: health, containerPort: 8081}
      {{- if .Values.peers.enabled }}
      - {name: peer, containerPort: 7946}
      {{- end }}
    {{- with .Values.s3.secret }}
    envFrom:
      - secretRef: {name: {{ . }}}
    {{- end }}
    {{- include "millrace.environment" . | nindent 4 }}
    {{- include "millrace.probes" . | nindent 4 }}
    resources: {{- include "millrace.resources" . | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: config, mountPath: /etc/millrace, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- if include "millrace.tlsSecret" . }}
      - {name: tls, mountPath: /etc/millrace-tls, readOnly: true}
      {{- end }}
      {{- if .Values.peers.enabled }}
      - {name: peer, mountPath: /etc/millrace-peer, readOnly: true}
      {{- end }}
      {{- if .Values.s3.credentialsSecret }}
      - {name: s3-credentials, mountPath: /etc/millrace-s3-credentials, readOnly: true}
      {{- end }}
      {{- if .Values.s3.caSecret }}
      - {name: s3-ca, mountPath: /etc/millrace-s3, readOnly: true}
      {{- end }}
      {{- if .Values.disk.size }}
      - {name: disk, mountPath: /var/lib/millrace}
      {{- end }}
      {{- if .Values.socket.hostPath }}
      - {name: socket, mountPath: /run/millrace}
      {{- end }}
      {{- with .Values.volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - {name: config, configMap: {name: {{ .Release.Name }}}}
  - {name: tmp, emptyDir: {}}
  {{- with include "millrace.tlsSecret" . }}
  - {name: tls, secret: {secretName: {{ . }}}}
  {{- end }}
  {{- if .Values.peers.enabled }}
  - {name: peer, secret: {secretName: {{ include "millrace.peerSecret" . }}}}
  {{- end }}
  {{- with .Values.s3.credentialsSecret }}
  - {name: s3-credentials, secret: {secretName: {{ . }}}}
  {{- end }}
  {{- with .Values.s3.caSecret }}
  - {name: s3-ca, secret: {secretName: {{ . }}}}
  {{- end }}
  {{- if and .Values.disk.size (eq .Values.mode "daemonset") }}
  - {name: disk, hostPath: {path: {{ .Values.disk.hostPath }}, type: Directory}}
  {{- end }}
  {{- with .Values.socket.hostPath }}
  - {name: socket, hostPath: {path: {{ . }}, type: Directory}}
  {{- end }}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- include "millrace.placement" . }}
{{- end }}

{{/* The credentials file and the authorities of the S3 service, and in a DaemonSet the gateway's name: that of its node. */}}
{{- define "millrace.environment" -}}
{{- $named := and .Values.peers.enabled (eq .Values.mode "daemonset") }}
{{- if or .Values.s3.credentialsSecret .Values.s3.caSecret $named .Values.env }}
env:
  {{- if .Values.s3.credentialsSecret }}
  - {name: AWS_SHARED_CREDENTIALS_FILE, value: /etc/millrace-s3-credentials/credentials}
  {{- end }}
  {{- if .Values.s3.caSecret }}
  - {name: AWS_CA_BUNDLE, value: /etc/millrace-s3/ca.crt}
  {{- end }}
  {{- if $named }}
  - {name: MILLRACE_MEMBER, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "millrace.probes" -}}
{{- $scheme := include "millrace.tlsSecret" . | empty | ternary "HTTP" "HTTPS" -}}
# The ports open when every dataset is open, which may take a while where an index is large.
startupProbe:
  httpGet: {path: /healthz, port: health, scheme: HTTP}
  periodSeconds: 2
  failureThreshold: {{ div .Values.startSeconds 2 }}
# The health port has connections of its own, and no Service or policy names it: only the node reaches it. So a port that is
# flooded does not make a gateway restart.
livenessProbe:
  httpGet: {path: /healthz, port: health, scheme: HTTP}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# Readiness is for readers, so the data port answers.
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{/* Where the pods go. */}}
{{- define "millrace.placement" -}}
{{- if ne .Values.mode "daemonset" }}
topologySpreadConstraints:
  {{- range .Values.spreadOver }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "millrace.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

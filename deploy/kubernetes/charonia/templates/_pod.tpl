{{/* What all pods and containers have in common. */}}

{{- define "charonia.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
privileged: false
readOnlyRootFilesystem: true
runAsGroup: 10001
runAsNonRoot: true
runAsUser: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The start of a pod's specification: (dict "root" $ "of" .Values.gateway "account" "name") */}}
{{- define "charonia.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set CHARONIA_PORT to the URL of a service called charonia.
enableServiceLinks: false
{{- with .account }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  runAsGroup: 10001
  runAsNonRoot: true
  runAsUser: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Spreads the pods of a component: (dict "root" $ "component" "gateway" "pool" "") */}}
{{- define "charonia.spread" -}}
{{- with .root.Values.topologySpread.keys -}}
topologySpreadConstraints:
  {{- range . }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $.root.Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "charonia.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a pod: (dict "root" $ "of" .Values.gateway "component" "gateway" "pool" "") */}}
{{- define "charonia.podMetadata" -}}
labels:
  {{- include "charonia.labels" . | nindent 2 }}
  {{- with .of.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .of.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Liveness, not readiness, restarts a container: without its database a service waits. */}}
{{- define "charonia.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- define "charonia.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- range $index, $file := .Values.secrets.files }}
- name: secret-{{ $index }}
  mountPath: {{ $file.mountPath }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "charonia.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 256Mi
{{- range $index, $file := .Values.secrets.files }}
- name: secret-{{ $index }}
  secret:
    secretName: {{ $file.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* The container of a service:
     (dict "root" $ "of" .Values.gateway "name" "gateway" "service" "gateway" "command" (list …) "environment" (dict …)) */}}
{{- define "charonia.container" -}}
name: {{ .name }}
image: {{ include "charonia.image" (dict "root" .root "service" .service) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .command }}
args: {{ toJson . }}
{{- end }}
securityContext:
  {{- include "charonia.containerSecurity" . | nindent 2 }}
env:
  {{- include "charonia.environment" (merge (dict "root" .root) .environment) | nindent 2 }}
resources:
  {{- toYaml .of.resources | nindent 2 }}
{{- end -}}

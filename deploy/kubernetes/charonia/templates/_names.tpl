{{/* Names and labels. */}}

{{- define "charonia.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "charonia" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-charonia" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component: (dict "root" $ "component" "gateway" "pool" "") */}}
{{- define "charonia.selector" -}}
app.kubernetes.io/name: charonia
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
charonia/pool: {{ . }}
{{- end }}
{{- end -}}

{{- define "charonia.labels" -}}
{{ include "charonia.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* The image of a service: (dict "root" $ "service" "gateway") */}}
{{- define "charonia.image" -}}
{{- with .root.Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is empty: set it to the registry and the folder of your images, such as registry.example.com/charonia. `make images` builds them" -}}
{{- end -}}
{{ printf "%s/%s:%s" .repository $.service (.tag | default $.root.Chart.AppVersion) | quote }}
{{- end -}}
{{- end -}}

{{/* One rule to a dependency: (dict "of" .Values.networkPolicy.database "udp" false). No rule without ports. */}}
{{- define "charonia.egress" -}}
{{- if .of.ports -}}
- ports:
    {{- range .of.ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- if $.udp }}
    - {port: {{ . }}, protocol: UDP}
    {{- end }}
    {{- end }}
  {{- with .of.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Where webhooks and inputs by URL may go: public addresses, and those that values.yaml names. */}}
{{- define "charonia.internet" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: {{ toJson .internet.exceptIPv4 }}
    - ipBlock:
        cidr: ::/0
        except: {{ toJson .internet.exceptIPv6 }}
    {{- with .internet.to }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

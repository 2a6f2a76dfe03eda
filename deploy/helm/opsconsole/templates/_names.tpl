{{- define "opsconsole.name" -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "opsconsole.selector" -}}
app.kubernetes.io/name: opsconsole
app.kubernetes.io/instance: {{ include "opsconsole.name" . }}
{{- end -}}

{{- define "opsconsole.labels" -}}
{{ include "opsconsole.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "opsconsole.meta" -}}
name: {{ include "opsconsole.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "opsconsole.labels" . | nindent 2 }}
{{- end -}}

"""The actions of the page's Do view: forms, requests to the control plane, and equivalent commands.

`forms` lists the actions and builds their fields from the control plane's OpenAPI document. `requests` turns a filled
form into a request to the control plane. `lines` writes that request as Python and as a curl command, and `tool_lines`
as a command of Kafka's tools.
"""

"""The actions of the page's Do view: forms, requests to the control plane, and equivalent commands.

`forms` lists the actions and makes their fields from the control plane's OpenAPI document. `requests` turns a filled
form into a request to the control plane. `lines` and `tool_lines` write that request as Python, as a curl command, and
as a command of Kafka's tools.
"""

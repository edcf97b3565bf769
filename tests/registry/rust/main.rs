//! Registers, encodes and decodes each format, with a reference in Avro.

use apache_avro::types::Value;
use schema_registry_converter::blocking::avro::{AvroDecoder, AvroEncoder};
use schema_registry_converter::blocking::json::{JsonDecoder, JsonEncoder};
use schema_registry_converter::blocking::proto_raw::{ProtoRawDecoder, ProtoRawEncoder};
use schema_registry_converter::blocking::schema_registry::{
    get_all_subjects, get_all_versions, is_compatible_schema, post_schema, SrSettings,
};
use schema_registry_converter::error::SRCError;
use schema_registry_converter::schema_registry_common::{
    SchemaType, SubjectNameStrategy, SuppliedReference, SuppliedSchema,
};
use serde_json::json;

const ORDER: &str =
    r#"{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}"#;
const BASKET: &str = r#"{"type":"record","name":"Basket","namespace":"shop","fields":[{"name":"order","type":"Order"}]}"#;
const JSON: &str = r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#;
const PROTOBUF: &str =
    "syntax = \"proto3\";\npackage shop;\n\nmessage Other {}\nmessage Order {\n  int64 id = 1;\n}\n";

fn supplied(
    schema_type: SchemaType,
    schema: &str,
    references: Vec<SuppliedReference>,
) -> SuppliedSchema {
    SuppliedSchema {
        name: Some(String::from("shop")),
        schema_type,
        schema: String::from(schema),
        references,
        properties: None,
        tags: None,
    }
}

fn of_topic(topic: &str, schema: SuppliedSchema) -> SubjectNameStrategy {
    SubjectNameStrategy::TopicNameStrategyWithSchema(String::from(topic), false, schema)
}

fn avro(settings: &SrSettings) -> Result<(), SRCError> {
    let order = SuppliedReference {
        name: String::from("shop.Order"),
        subject: String::from("order"),
        schema: String::from(ORDER),
        references: vec![],
        properties: None,
        tags: None,
    };
    let schema = supplied(SchemaType::Avro, BASKET, vec![order]);
    let encoder = AvroEncoder::new(settings.clone());
    let value = Value::Record(vec![(String::from("id"), Value::Long(7))]);
    let bytes = encoder.encode(vec![("order", value)], &of_topic("avro", schema))?;
    let decoded = AvroDecoder::new(settings.clone()).decode(Some(&bytes))?;
    println!("avro {:?} {:?}", &bytes[5..], decoded.value);
    Ok(())
}

fn json(settings: &SrSettings) -> Result<(), SRCError> {
    let schema = supplied(SchemaType::Json, JSON, vec![]);
    let strategy = of_topic("json", schema);
    let bytes = JsonEncoder::new(settings.clone()).encode(&json!({"id": 7}), &strategy)?;
    let mut decoder = JsonDecoder::new(settings.clone());
    let decoded = decoder.decode(Some(&bytes))?.expect("a value");
    println!("json {:?} {}", &bytes[5..], decoded.value);
    Ok(())
}

fn protobuf(settings: &SrSettings) -> Result<(), SRCError> {
    let strategy = of_topic("protobuf", supplied(SchemaType::Protobuf, PROTOBUF, vec![]));
    let encoder = ProtoRawEncoder::new(settings.clone());
    let bytes = encoder.encode(&[8, 7], "shop.Order", &strategy)?;
    let decoder = ProtoRawDecoder::new(settings.clone());
    let decoded = decoder.decode(Some(&bytes))?.expect("a value");
    println!(
        "protobuf {:?} {} {:?}",
        &bytes[5..],
        decoded.full_name,
        decoded.bytes
    );
    Ok(())
}

fn main() -> Result<(), SRCError> {
    let settings = SrSettings::new(std::env::args().nth(1).expect("a URL"));
    avro(&settings)?;
    json(&settings)?;
    protobuf(&settings)?;
    let changed = || supplied(SchemaType::Avro, "\"string\"", vec![]);
    let order = || String::from("order");
    println!(
        "compatible {}",
        is_compatible_schema(&settings, order(), changed())?
    );
    println!(
        "refused {}",
        post_schema(&settings, order(), changed()).is_err()
    );
    println!("versions {:?}", get_all_versions(&settings, order())?);
    let mut subjects = get_all_subjects(&settings)?;
    subjects.sort();
    println!("subjects {subjects:?}");
    Ok(())
}
